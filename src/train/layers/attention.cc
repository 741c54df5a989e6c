#include "train/layers/attention.h"

#include <array>

#include "tensor/gradient_node.h"
#include "tensor/kernels/fused.h"
#include "tensor/wide_product.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

const Parameter* optional_parameter(const OperatorState& state, const std::string& name) {
  return state.has_parameter(name) ? &state.parameter(name) : nullptr;
}

// By kernels of a wider type. What is kept for the backward pass is narrow but for the result.
at::Tensor attend_in(at::ScalarType wide, const at::Tensor& q, const at::Tensor& k,
                     const at::Tensor& v) {
  const auto widened = [wide](const at::Tensor& x) { return x.transpose(1, 2).to(wide); };
  const std::array inputs = {q.detach(), k.detach(), v.detach()};
  at::Tensor output, log_sum;
  {
    const at::NoGradGuard no_grad;
    std::tie(output, log_sum) = at::_scaled_dot_product_flash_attention_for_cpu(
        widened(inputs[0]), widened(inputs[1]), widened(inputs[2]), /*dropout_p=*/0.0,
        /*is_causal=*/true);
  }
  const auto narrowed = [type = q.scalar_type()](const at::Tensor& x) {
    return x.transpose(1, 2).to(type);
  };
  return with_gradient(narrowed(output), {q, k, v}, [=](const at::Tensor& gradient) {
    const auto [d_q, d_k, d_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        widened(gradient), widened(inputs[0]), widened(inputs[1]), widened(inputs[2]), output,
        log_sum, /*dropout_p=*/0.0, /*is_causal=*/true);
    return std::vector<at::Tensor>{narrowed(d_q), narrowed(d_k), narrowed(d_v)};
  });
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::ScalarType type = kernel_type(q);
  if (type != q.scalar_type()) return attend_in(type, q, k, v);
  return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                          /*attn_mask=*/{},
                                          /*dropout_p=*/0.0, /*is_causal=*/true)
      .transpose(1, 2);
}

namespace {

// Every head of k and v serves `times` neighbouring heads of q. Head by head, so that they are
// repeated by a view and not in memory. (The kernel's own grouping gives gradients with other
// bits.)
at::Tensor attend_in_groups(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t times) {
  if (times == 1) return causal_attention(q, k, v);
  const std::vector<at::Tensor> queries = q.split(times, 2), keys = k.split(1, 2),
                                values = v.split(1, 2);
  std::vector<at::Tensor> attended;
  for (size_t head = 0; head < keys.size(); ++head) {
    const auto repeated = [&](const at::Tensor& x) {
      return x.expand({x.size(0), x.size(1), times, x.size(3)});
    };
    attended.push_back(
        causal_attention(queries[head], repeated(keys[head]), repeated(values[head])));
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

namespace {

using Heads = std::array<at::Tensor, 3>;  // q, k, v

// The heads of each as views.
Heads views_of(const at::Tensor& all, int64_t heads, int64_t kv_heads) {
  return {all.narrow(2, 0, heads), all.narrow(2, heads, kv_heads),
          all.narrow(2, heads + kv_heads, kv_heads)};
}

// The rotation of q and k and their way back into one gradient are a kernel each.
Heads fused_heads(const at::Tensor& qkv, int64_t heads, int64_t kv_heads, const at::Tensor& cosine,
                  const at::Tensor& sine) {
  const Heads views = views_of(qkv.detach(), heads, kv_heads);
  const auto rotated = [&](const at::Tensor& x) {
    at::Tensor into = at::empty(x.sizes(), x.options());
    fused::rotate(x, cosine, sine, fused::Rotation::kForth, into);
    return into;
  };
  const auto backward = [=](const std::vector<at::Tensor>& gradients) {
    const at::Tensor& q = gradients[0];
    const at::Tensor all =
        at::empty({q.size(0), q.size(1), heads + 2 * kv_heads, q.size(3)}, q.options());
    const Heads into = views_of(all, heads, kv_heads);
    for (size_t i = 0; i < 2; ++i)
      fused::rotate(gradients[i], cosine, sine, fused::Rotation::kBack, into[i]);
    into[2].copy_(gradients[2]);
    return std::vector<at::Tensor>{all};
  };
  const auto parts =
      with_gradients({rotated(views[0]), rotated(views[1]), views[2]}, {qkv}, backward);
  return {parts[0], parts[1], parts[2]};
}

// With one gradient for all three: each slice's own would be a tensor of the whole. `cosine` and
// `sine` may be undefined: nothing is rotated.
Heads split_heads(const at::Tensor& qkv, int64_t heads, int64_t kv_heads, const at::Tensor& cosine,
                  const at::Tensor& sine) {
  if (cosine.defined() && fused::rotates(qkv))
    return fused_heads(qkv, heads, kv_heads, cosine, sine);
  const Heads views = views_of(qkv.detach(), heads, kv_heads);
  const std::vector<at::Tensor> parts = with_gradients(
      {views[0], views[1], views[2]}, {qkv},
      [](const auto& gradients) { return std::vector<at::Tensor>{at::cat(gradients, 2)}; });
  if (!cosine.defined()) return {parts[0], parts[1], parts[2]};
  return {rotary(parts[0], cosine, sine), rotary(parts[1], cosine, sine), parts[2]};
}

}  // namespace

at::Tensor Attention::forward(const at::Tensor& x, int64_t batch) const {
  const int64_t length = shape_.sequence_length;
  const at::Tensor qkv =
      linear(x, qkv_, qkv_bias_)
          .view({batch, length, shape_.heads + 2 * shape_.kv_heads, shape_.head_dim});
  const auto [q, k, v] = split_heads(qkv, shape_.heads, shape_.kv_heads, cosine_, sine_);
  const int64_t times = shape_.heads / shape_.kv_heads;
  const at::Tensor attended = attend_in_groups(q, k, v, times);
  return linear(attended.reshape({batch * length, shape_.heads * shape_.head_dim}), out_,
                out_bias_);
}

}  // namespace evermoe
