#include "planner/measured/runtime_profile_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_runtime_profile(data, size);
  return 0;
}
