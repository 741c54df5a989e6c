// The random numbers of SplitMix64 as a function of a counter: number n of the stream `key` is
// split_mix(key + n * kSplitMixStep).
#pragma once

#include <cstdint>

namespace evermoe {

inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// A bijection whose results look random for inputs that differ little.
constexpr uint64_t split_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace evermoe
