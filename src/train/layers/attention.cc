#include "train/layers/attention.h"

#include "tensor/wide_product.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

const Parameter* optional_parameter(const OperatorState& state, const std::string& name) {
  return state.has_parameter(name) ? &state.parameter(name) : nullptr;
}

// [B, T, heads, d] of each -> the same.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          /*attn_mask=*/{},
                                          /*dropout_p=*/0.0, /*is_causal=*/true)
      .transpose(1, 2);
}

// Every head of k and v serves `times` neighbouring heads of q. Head by head, so that they are
// repeated by a view and not in memory. (The kernel's own grouping gives gradients with other
// bits.)
at::Tensor attend_in_groups(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t times) {
  if (times == 1) return attend(q, k, v);
  const std::vector<at::Tensor> queries = q.split(times, 2), keys = k.split(1, 2),
                                values = v.split(1, 2);
  std::vector<at::Tensor> attended;
  for (size_t head = 0; head < keys.size(); ++head) {
    const auto repeated = [&](const at::Tensor& x) {
      return x.expand({x.size(0), x.size(1), times, x.size(3)});
    };
    attended.push_back(attend(queries[head], repeated(keys[head]), repeated(values[head])));
  }
  return at::cat(attended, 2);
}

}  // namespace

Attention::Attention(const OperatorState& block, const ModelShape& shape, StateTypes types)
    : shape_(shape),
      qkv_(block.parameter("attention.qkv.weight")),
      qkv_bias_(optional_parameter(block, "attention.qkv.bias")),
      out_(block.parameter("attention.out.weight")),
      out_bias_(optional_parameter(block, "attention.out.bias")) {
  if (shape.position == PositionKind::kRotary) {
    std::tie(cosine_, sine_) = rotary_tables(shape.sequence_length, shape.head_dim,
                                             shape.rope_theta, types.activations(), types.device);
  }
}

at::Tensor Attention::forward(const at::Tensor& x, int64_t batch) const {
  const int64_t length = shape_.sequence_length;
  const at::Tensor qkv =
      linear(x, qkv_, qkv_bias_)
          .view({batch, length, shape_.heads + 2 * shape_.kv_heads, shape_.head_dim});
  at::Tensor q = qkv.narrow(2, 0, shape_.heads);
  at::Tensor k = qkv.narrow(2, shape_.heads, shape_.kv_heads);
  at::Tensor v = qkv.narrow(2, shape_.heads + shape_.kv_heads, shape_.kv_heads);
  if (cosine_.defined()) {
    q = rotary(q, cosine_, sine_);
    k = rotary(k, cosine_, sine_);
  }
  const int64_t times = shape_.heads / shape_.kv_heads;
  const at::ScalarType type = kernel_type(q);
  const at::Tensor attended =
      attend_in_groups(q.to(type), k.to(type), v.to(type), times).to(q.scalar_type());
  return linear(attended.reshape({batch * length, shape_.heads * shape_.head_dim}), out_,
                out_bias_);
}

}  // namespace evermoe
