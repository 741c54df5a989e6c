#include "cli/commands/host_list_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_host_list(data, size);
  return 0;
}
