#include "faults/fault_script_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_fault_script(data, size);
  return 0;
}
