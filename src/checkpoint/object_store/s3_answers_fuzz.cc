#include <cstdint>

#include "checkpoint/object_store/s3_answers_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_s3_answers(std::as_bytes(std::span(data, size)));
  return 0;
}
