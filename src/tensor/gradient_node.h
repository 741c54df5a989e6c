// Operations with a backward of our own inside autograd's graph.
//
// Plain autograd would accumulate weight gradients in the weights' type and could not be told to
// leave them out; our backward functions add them to FP32 accumulators themselves and return only
// the gradients of activations. They may also communicate, and may throw StatusError.
#pragma once

#include <functional>
#include <vector>

#include "tensor/torch.h"

namespace evermoe {

// Returns the gradients of the inputs, in order; an undefined tensor means none.
using BackwardFunction = std::function<std::vector<at::Tensor>(const at::Tensor& output_gradient)>;
// The same for several outputs; the gradient of one that nobody used is undefined.
using BackwardOfMany =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& output_gradients)>;

// Makes `output`, computed from `inputs` outside autograd (under NoGradGuard), the result of one
// graph node whose backward is `backward`. The function and what it captures are freed once it has
// run; capture detached tensors only. Without gradient mode, or if no input requires a gradient,
// the output is returned as it is.
at::Tensor with_gradient(at::Tensor output, const std::vector<at::Tensor>& inputs,
                         BackwardFunction backward);
std::vector<at::Tensor> with_gradients(std::vector<at::Tensor> outputs,
                                       const std::vector<at::Tensor>& inputs,
                                       BackwardOfMany backward);

}  // namespace evermoe
