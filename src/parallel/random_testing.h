// Random numbers for this folder's tests: a pure function of (seed, how many were drawn).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/split_mix.h"

namespace evermoe {

class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : seed_(seed * kSplitMixStep) {}

  uint64_t next() { return split_mix(seed_ + ++drawn_ * kSplitMixStep); }
  // low .. high, both included.
  int integer(int low, int high) {
    return low + static_cast<int>(next() % static_cast<uint64_t>(high - low + 1));
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <typename Value>
  void shuffle(std::vector<Value>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[next() % i]);
  }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

}  // namespace evermoe
