// What a GPU's training step does between products, each in one pass over memory where PyTorch's
// operations would make several: kernels of our own (fused_kernels.cu).
//
// For rows of BF16 [rows, width], contiguous, in the memory of a GPU; arithmetic in FP32, rounded
// once. Everything is added in a fixed order. All run on the default stream, behind what was
// started before, and nobody waits. None has a gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "tensor/torch.h"

namespace evermoe::fused {

// Whether the layers use kernels for these rows.
bool has_kernels(const at::Tensor& rows);

// [T, width]: of every token the sum of its rows times their weights. `row_of` [T, top_k] int64
// names rows; `weights` [T, top_k] FP32, undefined: all are 1.
at::Tensor mix(const at::Tensor& rows, const at::Tensor& row_of, const at::Tensor& weights);
// Gradients of the rows and of the weights from that of the tokens. `choice_of_row` [rows]: where
// in `row_of` the row is named; each is once.
std::pair<at::Tensor, at::Tensor> mix_backward(const at::Tensor& gradient, const at::Tensor& rows,
                                               const at::Tensor& choice_of_row,
                                               const at::Tensor& weights);

// up [rows, 2 F] holds gate columns, then up columns: silu(gate) * up -> [rows, F].
at::Tensor swiglu(const at::Tensor& up);
at::Tensor swiglu_backward(const at::Tensor& gradient, const at::Tensor& up);

// x / sqrt(mean(x^2) + epsilon) * weight, and the factors [rows] FP32 that rows were scaled by.
std::pair<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                           double epsilon);
// Gradients of x, and of the weight [width] in FP32 (undefined unless `of_weight`).
std::pair<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                    const at::Tensor& scale,
                                                    const at::Tensor& weight, bool of_weight);

// Whether rotate() takes views of x [B, T, heads, head_dim].
bool rotates(const at::Tensor& x);
enum class Rotation { kForth, kBack };
// Rotates pairs (i, i + head_dim / 2) of x [B, T, heads, head_dim] by the angles whose cosines and
// sines [T, 1, head_dim / 2] FP32 these are. Both x and `into` may be views whose heads are
// contiguous.
void rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
            Rotation direction, const at::Tensor& into);

// For tests: from now on kernels of tensors in host memory are run by this, which is given their
// name and pointers to their arguments.
using Launcher = std::function<void(const std::string& kernel, int64_t blocks, int64_t threads,
                                    std::span<void*> arguments)>;
void run_in_host_memory_by(Launcher launcher);

}  // namespace evermoe::fused
