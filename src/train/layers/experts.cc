#include "train/layers/experts.h"

#include "tensor/gradient_node.h"
#include "tensor/wide_product.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

at::Tensor affine(const at::Tensor& x, const Parameter& weight, const Parameter* bias) {
  return linear_product(x, weight.value, bias != nullptr ? bias->value : at::Tensor());
}

// `factor` is the gradient as a factor of products.
void accumulate(const Parameter& weight, const Parameter* bias, const at::Tensor& gradient,
                const at::Tensor& factor, const at::Tensor& x) {
  accumulate_weight_gradient(weight, factor, x);
  if (bias != nullptr) accumulate_bias_gradient(*bias, gradient);
}

at::Tensor activate(const FeedForward& expert, const at::Tensor& up) {
  return expert.activation == ActivationKind::kSwiGlu ? swiglu_forward(up) : at::gelu(up, "tanh");
}

at::Tensor activate_backward(const FeedForward& expert, const at::Tensor& gradient,
                             const at::Tensor& up) {
  return expert.activation == ActivationKind::kSwiGlu ? swiglu_backward(gradient, up)
                                                      : at::gelu_backward(gradient, up, "tanh");
}

// What one expert keeps from its forward for its backward.
struct Kept {
  const FeedForward* expert;
  ExpertRows rows;
  at::Tensor up;         // before the activation; both undefined if they are computed again
  at::Tensor activated;  // after it, as a factor of the product
};

// A factor of the first product.
at::Tensor rows_of(const Kept& one, const at::Tensor& input) {
  return forward_factor(input.narrow(0, one.rows.begin, one.rows.padded), *one.expert->up);
}

void compute_inside(Kept& one, const at::Tensor& input) {
  const FeedForward& expert = *one.expert;
  one.up = affine(rows_of(one, input), *expert.up, expert.up_bias);
  one.activated = forward_factor(activate(expert, one.up), *expert.down);
}

void backward_one(Kept kept, const at::Tensor& input, const at::Tensor& output_gradient,
                  at::Tensor& input_gradient) {
  const FeedForward& expert = *kept.expert;
  if (!kept.up.defined()) compute_inside(kept, input);
  const at::Tensor gradient = output_gradient.narrow(0, kept.rows.begin, kept.rows.padded);
  const at::Tensor factor = gradient_factor(gradient, *expert.down);
  accumulate(*expert.down, expert.down_bias, gradient, factor, kept.activated);
  const at::Tensor d_up =
      activate_backward(expert, matrix_product(factor, expert.down->value), kept.up);
  const at::Tensor up_factor = gradient_factor(d_up, *expert.up);
  accumulate(*expert.up, expert.up_bias, d_up, up_factor, rows_of(kept, input));
  at::Tensor into = input_gradient.narrow(0, kept.rows.begin, kept.rows.padded);
  matrix_product_into(into, up_factor, expert.up->value);
}

}  // namespace

FeedForward::FeedForward(const OperatorState& state, const std::string& prefix, ActivationKind kind)
    : activation(kind) {
  const auto find = [&](const std::string& name) {
    return state.has_parameter(prefix + name) ? &state.parameter(prefix + name) : nullptr;
  };
  up = find("up.weight");
  up_bias = find("up.bias");
  down = find("down.weight");
  down_bias = find("down.bias");
  CHECK(up != nullptr && down != nullptr) << state.spec().name << " " << prefix;
}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  const at::Tensor widened = linear(x, *up, up_bias);
  return linear(activation == ActivationKind::kSwiGlu ? swiglu(widened) : gelu_tanh(widened), *down,
                down_bias);
}

at::Tensor run_experts(const at::Tensor& layout, const std::vector<FeedForward>& experts,
                       const std::vector<ExpertRows>& rows, bool recomputes) {
  const at::Tensor input = layout.detach();
  at::Tensor output;
  std::vector<Kept> kept;
  {
    const at::NoGradGuard no_grad;
    output = at::empty_like(input);
    for (size_t i = 0; i < experts.size(); ++i) {
      if (rows[i].rows == 0) continue;
      Kept one{&experts[i], rows[i], {}, {}};
      compute_inside(one, input);
      output.narrow(0, rows[i].begin, rows[i].padded)
          .copy_(affine(one.activated, *experts[i].down, experts[i].down_bias));
      if (recomputes) one.up = one.activated = at::Tensor();
      kept.push_back(std::move(one));
    }
  }
  return with_gradient(output, {layout},
                       [input, kept = std::move(kept)](const at::Tensor& gradient) {
                         at::Tensor input_gradient = at::empty_like(input);
                         const at::Tensor rows_gradient = gradient.contiguous();
                         for (const Kept& one : kept)
                           backward_one(one, input, rows_gradient, input_gradient);
                         return std::vector<at::Tensor>{input_gradient};
                       });
}

}  // namespace evermoe
