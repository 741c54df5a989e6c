// Elementwise reductions in a fixed order.
#pragma once

#include <cstddef>
#include <span>

namespace evermoe {

enum class ReduceOp { kSum, kMin, kMax };

// out[k] = ((in[0][k] op in[1][k]) op in[2][k]) op ... for k < count. `out` may be one of the
// inputs.
//
// The bits depend on the inputs and their order alone, not on `count` or alignment. kMin and kMax
// keep the earlier value where the comparison is false (equal values, NaN).
// Instantiated for float, double and int64_t. REQUIRES: inputs is not empty.
template <typename T>
void reduce_in_order(std::span<const T* const> inputs, size_t count, ReduceOp op, T* out);

}  // namespace evermoe
