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

namespace {

// Tensors of the same shape that lie equally far apart, as one; undefined if they do not.
at::Tensor stack_of(const std::vector<at::Tensor>& tensors) {
  const at::Tensor& first = tensors.front();
  const int64_t distance =
      tensors.size() == 1 ? first.numel() : tensors[1].storage_offset() - first.storage_offset();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool fits =
        tensors[i].is_alias_of(first) && distance > 0 &&
        tensors[i].storage_offset() == first.storage_offset() + static_cast<int64_t>(i) * distance;
    if (!fits) return {};
  }
  return first.as_strided({static_cast<int64_t>(tensors.size()), first.size(0), first.size(1)},
                          {distance, first.size(1), 1}, first.storage_offset());
}

StackedMatrix stack_of(const std::vector<FeedForward>& experts,
                       const Parameter* FeedForward::*parameter) {
  std::vector<at::Tensor> values, gradients;
  for (const FeedForward& one : experts) {
    values.push_back((one.*parameter)->value);
    gradients.push_back((one.*parameter)->gradient);
  }
  StackedMatrix stack{stack_of(values), stack_of(gradients)};
  return stack.value.defined() && stack.gradient.defined() ? stack : StackedMatrix{};
}

// What one exchange's rows need in grouped products.
struct Group {
  const std::vector<FeedForward>* experts;
  StackedExperts stack;
  at::Tensor ends;  // of each expert's rows, on the device

  const FeedForward& any() const { return experts->front(); }
  // x [rows, in] of all experts, each with its own [out, in]: x weight^T, and x weight.
  at::Tensor forward(const at::Tensor& x, const StackedMatrix& weights) const {
    return at::_grouped_mm(x, weights.value.transpose(1, 2), ends);
  }
  at::Tensor backward(const at::Tensor& x, const StackedMatrix& weights) const {
    return at::_grouped_mm(x, weights.value, ends);
  }
  // Adds every expert's gradient^T x to its accumulator, now or later.
  void accumulate(const Parameter* FeedForward::*parameter, const StackedMatrix& weights,
                  const at::Tensor& gradient, const at::Tensor& x) const {
    std::vector<const Parameter*> active;
    for (const FeedForward& one : *experts) {
      if (!(one.*parameter)->is_frozen) active.push_back(one.*parameter);
    }
    if (active.empty()) return;
    const bool are_all = active.size() == experts->size();
    const auto add = [=, all = weights.gradient, group = ends,
                      each = gradients_of(*experts, parameter)] {
      const at::Tensor products = at::_grouped_mm(gradient.t(), x, group);
      if (are_all) {
        at::Tensor(all).add_(products);
        return;
      }
      for (size_t i = 0; i < each.size(); ++i) {
        if (each[i].defined()) at::Tensor(each[i]).add_(products[static_cast<int64_t>(i)]);
      }
    };
    defer_together(active, static_cast<int64_t>(gradient.nbytes() + x.nbytes()), add);
  }

 private:
  // Undefined: of a frozen expert.
  static std::vector<at::Tensor> gradients_of(const std::vector<FeedForward>& experts,
                                              const Parameter* FeedForward::*parameter) {
    std::vector<at::Tensor> gradients;
    for (const FeedForward& one : experts) {
      const Parameter& matrix = *(one.*parameter);
      gradients.push_back(matrix.is_frozen ? at::Tensor() : matrix.gradient);
    }
    return gradients;
  }
};

at::Tensor run_grouped(const at::Tensor& layout, const Group& group, bool recomputes) {
  const at::Tensor input = layout.detach();
  at::Tensor output, up, activated;
  {
    const at::NoGradGuard no_grad;
    up = group.forward(input, group.stack.up);
    activated = activate(group.any(), up);
    output = group.forward(activated, group.stack.down);
  }
  if (recomputes) up = activated = at::Tensor();
  return with_gradient(output, {layout}, [=](const at::Tensor& output_gradient) {
    const at::Tensor kept_up = recomputes ? group.forward(input, group.stack.up) : up;
    const at::Tensor kept = recomputes ? activate(group.any(), kept_up) : activated;
    const at::Tensor gradient = output_gradient.contiguous();
    group.accumulate(&FeedForward::down, group.stack.down, gradient, kept);
    const at::Tensor d_up =
        activate_backward(group.any(), group.backward(gradient, group.stack.down), kept_up);
    group.accumulate(&FeedForward::up, group.stack.up, d_up, input);
    return std::vector<at::Tensor>{group.backward(d_up, group.stack.up)};
  });
}

}  // namespace

StackedExperts stack_experts(const std::vector<FeedForward>& experts) {
  for (const FeedForward& one : experts) {
    if (one.up_bias != nullptr || one.down_bias != nullptr || one.up->has_fp8_products) return {};
  }
  if (experts.empty()) return {};
  StackedExperts stack{stack_of(experts, &FeedForward::up), stack_of(experts, &FeedForward::down)};
  const bool are_both = stack.up.value.defined() && stack.down.value.defined();
  return are_both ? stack : StackedExperts{};
}

at::Tensor run_experts(const at::Tensor& layout, const std::vector<FeedForward>& experts,
                       const std::shared_ptr<ExpertLayout>& expert_layout, bool recomputes,
                       const StackedExperts& stack) {
  if (stack.is_defined() && layout.size(0) > 0) {
    const Group group{&experts, stack, expert_layout->ends(layout.device())};
    return run_grouped(layout, group, recomputes);
  }
  const std::vector<ExpertRows>& rows = expert_layout->rows();
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
