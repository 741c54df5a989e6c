// What a fuzzer does with arbitrary bytes as a configuration; shared by libFuzzer and the unit
// tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// The bytes up to the first NUL are a TOML text, the others NUL-separated settings. Aborts unless
// an error is one line and an accepted configuration survives to_toml().
void fuzz_config(const uint8_t* data, size_t size);

}  // namespace evermoe
