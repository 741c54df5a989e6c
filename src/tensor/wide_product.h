// Products of matrices on the CPU with sums in FP32, whatever narrow type the factors have.
//
// Kernels of narrow types are only used where the CPU has the instructions for them. Without,
// libraries fall back to loops that take seven (PyTorch's) to seventy times (oneDNN's) as long as
// FP32's kernels, so factors are widened first.
#pragma once

#include "tensor/torch.h"

namespace evermoe {

// In which kernels compute with factors of this type: itself, or FP32.
at::ScalarType kernel_type(const at::Tensor& factor);

// x weight^T + bias, of x [N, in], weight [out, in] and bias [out], which may be undefined; rounded
// once, to their type.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias = {});
// a b, rounded once, to their type.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);
void matrix_product_into(at::Tensor into, const at::Tensor& a, const at::Tensor& b);

// accumulator [out, in] += gradient^T x, of gradient [N, out] and x [N, in]: the gradient of a
// weight. The accumulator is contiguous, in FP32 if the others are BF16 or FP16, and in their type
// if it is FP32 or FP64. Nothing is rounded to BF16 or FP16 on the way, and nothing overflows that
// FP32 can hold.
void add_weight_gradient(at::Tensor accumulator, const at::Tensor& gradient, const at::Tensor& x);

}  // namespace evermoe
