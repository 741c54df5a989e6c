#include "data/token_file_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_token_file(data, size);
  return 0;
}
