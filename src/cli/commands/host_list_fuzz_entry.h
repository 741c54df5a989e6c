// What a fuzzer does with arbitrary bytes as a list of hosts; shared by libFuzzer and the unit
// tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Aborts if what is expanded is longer than allowed, has brackets left, or is not itself a list of
// the same hosts.
void fuzz_host_list(const uint8_t* data, size_t size);

}  // namespace evermoe
