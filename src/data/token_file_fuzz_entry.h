// What a fuzzer does with arbitrary bytes as a token file; shared by libFuzzer and the unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Decodes the bytes as a token file and reads what it offers. Aborts if a promise is broken.
void fuzz_token_file(const uint8_t* data, size_t size);

}  // namespace evermoe
