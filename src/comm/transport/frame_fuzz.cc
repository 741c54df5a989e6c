#include "comm/transport/greeting_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_greetings(data, size);
  return 0;
}
