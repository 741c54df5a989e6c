// What a fuzzer does with arbitrary bytes as what comes from a stranger before anything is proven:
// headers, greetings, greetings with proofs. Shared by libFuzzer and unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Decodes the bytes as they are, and as the fields of a header or greeting whose checksum and hash
// are right; aborts if what can be decoded has another encoding, or if something without the right
// hash is taken for proven.
void fuzz_greetings(const uint8_t* data, size_t size);

}  // namespace evermoe
