// What a fuzzer does with arbitrary bytes as the record of prepared tokens; shared by libFuzzer and
// the unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Reads the bytes as a record. Aborts if what is read is not what is written again.
void fuzz_token_record(const uint8_t* data, size_t size);

}  // namespace evermoe
