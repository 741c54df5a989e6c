// Products of narrow matrices with sums in FP32.
#pragma once

#include "tensor/torch.h"

namespace evermoe {

// accumulator [out, in] += gradient^T x, of gradient [N, out] and x [N, in]: the gradient of a
// weight. The accumulator is contiguous, in FP32 if the others are BF16 or FP16, and in their type
// if it is FP32 or FP64. Nothing is rounded to BF16 or FP16 on the way, and nothing overflows that
// FP32 can hold.
void add_weight_gradient(at::Tensor accumulator, const at::Tensor& gradient, const at::Tensor& x);

}  // namespace evermoe
