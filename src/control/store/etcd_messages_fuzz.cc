#include "control/store/etcd_messages_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_etcd_messages(data, size);
  return 0;
}
