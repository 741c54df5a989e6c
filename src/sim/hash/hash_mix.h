// The hash that every value of the hash model (hash_model.h) is folded with, and that random
// schedules are drawn with.
#pragma once

#include <cstdint>

namespace evermoe {

// What SplitMix64 adds from draw to draw: mix(x), mix(x + kMixStep), ... are its stream.
inline constexpr uint64_t kMixStep = 0x9e3779b97f4a7c15;

// One draw of SplitMix64: a good and fast mixing of 64 bits.
inline uint64_t mix(uint64_t x) {
  x += kMixStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of all of them, in this order.
template <typename... Rest>
uint64_t mix(uint64_t first, Rest... rest) {
  return mix(first ^ (mix(static_cast<uint64_t>(rest)...) * 3));
}

}  // namespace evermoe
