// What a fuzzer does with arbitrary bytes as a message of the control plane; shared by libFuzzer
// and unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Decodes the bytes; aborts if what can be decoded has another encoding.
void fuzz_control_codec(const uint8_t* data, size_t size);

}  // namespace evermoe
