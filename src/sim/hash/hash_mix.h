// The hash that every value of the hash model (hash_model.h) is folded with, and that random
// schedules are drawn with.
#pragma once

#include <cstdint>

#include "base/split_mix.h"

namespace evermoe {

// One draw of SplitMix64: a good and fast mixing of 64 bits.
inline uint64_t mix(uint64_t x) { return split_mix(x + kSplitMixStep); }

// Of all of them, in this order.
template <typename... Rest>
uint64_t mix(uint64_t first, Rest... rest) {
  return mix(first ^ (mix(static_cast<uint64_t>(rest)...) * 3));
}

}  // namespace evermoe
