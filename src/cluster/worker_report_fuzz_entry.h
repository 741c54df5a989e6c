// What a fuzzer does with arbitrary bytes as a worker's report; shared by libFuzzer and unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Decodes the bytes as one line, and as a stream that arrives in pieces. Aborts if a promise breaks.
void fuzz_worker_report(const uint8_t* data, size_t size);

}  // namespace evermoe
