// What a fuzzer does with arbitrary bytes as a runtime profile; shared by libFuzzer and unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Aborts unless an error is one line of bad input and an accepted profile survives to_toml().
void fuzz_runtime_profile(const uint8_t* data, size_t size);

}  // namespace evermoe
