// Causal self-attention with grouped queries and, where the model wants it, rotary positions.
#pragma once

#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/state/operator_state.h"

namespace evermoe {

// q, k, v [B, T, heads, d] -> the same: softmax(q k^T / sqrt(d)) v of each head, of a position no
// later than its own. Of narrow types, all sums are in FP32.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

class Attention {
 public:
  Attention(const OperatorState& block, const ModelShape& shape, StateTypes types);

  // x [batch * T, hidden], T = shape.sequence_length -> the same shape.
  at::Tensor forward(const at::Tensor& x, int64_t batch) const;

 private:
  const ModelShape& shape_;
  const Parameter& qkv_;
  const Parameter* qkv_bias_;
  const Parameter& out_;
  const Parameter* out_bias_;
  at::Tensor cosine_;  // undefined with learned positions
  at::Tensor sine_;
};

}  // namespace evermoe
