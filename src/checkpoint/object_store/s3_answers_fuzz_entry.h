// What the fuzzer and the test of mutated answers run.
#pragma once

#include <cstddef>
#include <span>

namespace evermoe {

// Decodes the bytes as each of the answers of an S3 server.
void fuzz_s3_answers(std::span<const std::byte> bytes);

}  // namespace evermoe
