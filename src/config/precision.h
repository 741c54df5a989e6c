// Types of weights.
#pragma once

#include <cstdint>

namespace evermoe {

enum class Precision { kFp32, kBf16, kFp16, kFp64 };  // compute type; fp64 has fp64 masters too

// Bytes of an element: of compute weights and activations, and of masters, moments and gradient
// sums.
constexpr int64_t compute_bytes(Precision precision) {
  switch (precision) {
    case Precision::kFp64: return 8;
    case Precision::kFp32: return 4;
    default: return 2;
  }
}
constexpr int64_t master_bytes(Precision precision) {
  return precision == Precision::kFp64 ? 8 : 4;
}

}  // namespace evermoe
