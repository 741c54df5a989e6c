// What a fuzzer does with arbitrary bytes as a fault script; shared by libFuzzer and unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Aborts unless an error is one line and an accepted script survives to_toml().
void fuzz_fault_script(const uint8_t* data, size_t size);

}  // namespace evermoe
