// What a fuzzer does with arbitrary bytes as an answer of etcd; shared by libFuzzer and unit tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evermoe {

// Reads the bytes as every kind of answer; aborts if what is refused has another error than
// Corrupt, or if what is read depends on fields that protobuf's rules tell a reader to skip.
void fuzz_etcd_messages(const uint8_t* data, size_t size);

}  // namespace evermoe
