// Random numbers for tests: the i-th number is a function of (seed, i), so that a case is the same
// on every machine and can be repeated alone.
#pragma once

#include <cstdint>

#include "base/split_mix.h"

namespace evermoe {

class CounterRandom {
 public:
  explicit CounterRandom(uint64_t seed) : seed_(seed) {}

  uint64_t next() { return split_mix(seed_ * 0xd1342543de82ef95u + ++counter_ * kSplitMixStep); }
  // Uniform on [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  // Uniform on [0, 1).
  double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  const uint64_t seed_;
  uint64_t counter_ = 0;
};

}  // namespace evermoe
