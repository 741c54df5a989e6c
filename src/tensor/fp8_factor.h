// FP8 products where the hardware has none: factors are rounded to FP8 and multiplied in a wider
// type.
#pragma once

#include "tensor/torch.h"

namespace evermoe {

// `x` rounded to the nearest of `type` (at::kFloat8_e4m3fn for what goes forward,
// at::kFloat8_e5m2 for gradients), in the type of x, which holds that exactly. The whole tensor has
// one scale: the greatest power of two that keeps its largest element inside the type, so it is a
// function of the tensor alone. Only what is smaller than the largest by about 2^14 (E4M3) or 2^29
// (E5M2) is rounded to less than the type's mantissa. A tensor with an element that is not finite
// comes back as it is.
at::Tensor rounded_to_fp8(const at::Tensor& x, at::ScalarType type);

}  // namespace evermoe
