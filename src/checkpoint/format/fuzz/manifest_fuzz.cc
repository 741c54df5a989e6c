#include <cstdint>

#include "checkpoint/format/fuzz_entries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_manifest(std::as_bytes(std::span(data, size)));
  return 0;
}
