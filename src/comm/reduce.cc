#include "comm/reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace evermoe {
namespace {

// Elements folded at a time: the running result stays in the first-level cache.
constexpr size_t kBlock = 1024;

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
// Integers wrap around, as on every machine, instead of being undefined.
template <>
int64_t Sum::operator()(int64_t a, int64_t b) const {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// The result is built aside, because `out` may be an input of a later index.
template <typename T, typename Op>
void fold(std::span<const T* const> inputs, size_t count, Op op, T* out) {
  std::array<T, kBlock> result;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    std::memcpy(result.data(), inputs[0] + begin, block * sizeof(T));
    for (size_t i = 1; i < inputs.size(); ++i) {
      const T* const input = inputs[i] + begin;
      for (size_t k = 0; k < block; ++k) result[k] = op(result[k], input[k]);
    }
    std::memcpy(out + begin, result.data(), block * sizeof(T));
  }
}

}  // namespace

template <typename T>
void reduce_in_order(std::span<const T* const> inputs, size_t count, ReduceOp op, T* out) {
  CHECK(!inputs.empty());
  switch (op) {
    case ReduceOp::kSum: return fold(inputs, count, Sum(), out);
    case ReduceOp::kMin: return fold(inputs, count, Min(), out);
    case ReduceOp::kMax: return fold(inputs, count, Max(), out);
  }
}

template void reduce_in_order(std::span<const float* const>, size_t, ReduceOp, float*);
template void reduce_in_order(std::span<const double* const>, size_t, ReduceOp, double*);
template void reduce_in_order(std::span<const int64_t* const>, size_t, ReduceOp, int64_t*);

}  // namespace evermoe
