// The arithmetic of a layer, each with its own backward: weight gradients go straight into the
// accumulators of their Parameter, and only activation gradients travel through autograd. Frozen
// parameters get no gradient, and no work is done for it; all other results have the same bits.
//
// Activations are [rows, features] in the compute type. Rows are the tokens of one micro-batch.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tensor/torch.h"
#include "train/state/operator_state.h"

namespace evermoe {

// x [N, in] -> x weight^T (+ bias) [N, out]. weight [out, in].
at::Tensor linear(const at::Tensor& x, const Parameter& weight, const Parameter* bias);

// The same with arithmetic and result in at least FP32, whatever the compute type (gates).
at::Tensor linear_in_fp32(const at::Tensor& x, const Parameter& weight);

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension; statistics in at least FP32.
at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double epsilon);

// (x - mean) / sqrt(var + epsilon) * weight + bias over the last dimension; statistics in at least
// FP32.
at::Tensor layer_norm(const at::Tensor& x, const Parameter& weight, const Parameter& bias,
                      double epsilon);

// up [N, 2 F] holds gate columns, then up columns: silu(gate) * up -> [N, F].
at::Tensor swiglu(const at::Tensor& up);
at::Tensor gelu_tanh(const at::Tensor& x);

// Forward and gradient of the activation without autograd, for kernels that do their own backward.
at::Tensor swiglu_forward(const at::Tensor& up);
at::Tensor swiglu_backward(const at::Tensor& gradient, const at::Tensor& up);

// Rotates pairs (i, i + head_dim / 2) of x [B, T, heads, head_dim] by position * theta^(-2 i /
// head_dim). `cosine` and `sine` are [T, 1, head_dim / 2] tables (rotary_tables), in at least FP32,
// as is the rotation; `type` is that of x.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);
std::pair<at::Tensor, at::Tensor> rotary_tables(int64_t length, int64_t head_dim, double theta,
                                                at::ScalarType type, at::Device device);

// x once for each of so many readers. Their gradients are added in the order of the readers,
// whenever autograd gets them: what runs first in the backward pass then changes no bit.
std::vector<at::Tensor> fan_out(const at::Tensor& x, int readers);

// A factor of a product with this weight, forward (activations) and backward (gradients of
// outputs): rounded to E4M3 and E5M2 where products are in FP8 (Parameter::has_fp8_products), else
// as it is.
at::Tensor forward_factor(const at::Tensor& x, const Parameter& weight);
at::Tensor gradient_factor(const at::Tensor& gradient, const Parameter& weight);

// Adds dW = gradient^T x to a weight's accumulator, now or later (Parameter::deferred), unless it
// is frozen. Neither tensor may be changed afterwards.
void accumulate_weight_gradient(const Parameter& weight, const at::Tensor& gradient,
                                const at::Tensor& x);
// Runs `add`, which adds to the accumulators of all these matrices, now or later, if they are put
// off; it keeps `bytes`. `weights` is not empty.
void defer_together(const std::vector<const Parameter*>& weights, int64_t bytes,
                    const std::function<void()>& add);
void accumulate_bias_gradient(const Parameter& bias, const at::Tensor& gradient);

}  // namespace evermoe
