#include "train/dispatch/token_dispatch.h"

#include "base/check.h"
#include "tensor/gradient_node.h"
#include "train/dispatch/lane_dispatch.h"
#include "train/dispatch/lone_dispatch.h"

namespace evermoe {

at::Tensor scaled(const at::Tensor& rows, const at::Tensor& factors) {
  if (!rows.is_cpu()) {  // in one kernel, which widens and rounds in its registers
    at::Tensor products = at::empty_like(rows);
    return at::mul_out(products, rows, factors.unsqueeze(-1));
  }
  // In place of one copy: another would be the most memory that a layer takes in 16 bits.
  return rows.to(factors.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
      .mul_(factors.unsqueeze(-1))
      .to(rows.scalar_type());
}

std::shared_ptr<TokenDispatch> TokenDispatch::start(Communicator& stage_group,
                                                    const ExpertPlacement& placement,
                                                    const at::Tensor& experts,
                                                    const at::Tensor& load,
                                                    const at::Tensor& tokens, Planner planner) {
  const at::TensorOptions options = tokens.options().requires_grad(false);
  if (planner == Planner::kDevice) {
    CHECK(stage_group.size() == 1) << "other lanes plan on their hosts";
    return std::make_shared<LoneDispatch>(experts, load, options);
  }
  return std::make_shared<LaneDispatch>(stage_group, placement, experts, options,
                                        tokens.size(1) * tokens.element_size());
}

at::Tensor TokenDispatch::send_tokens(const at::Tensor& tokens) {
  {
    const at::NoGradGuard no_grad;
    send_rows(tokens.detach());
  }
  // A token's gradient is the sum over its choices, in their order: no scatter, so no atomics.
  return with_gradient(at::empty({0}, options_), {tokens},
                       [self = shared_from_this()](const auto&) {
                         return std::vector<at::Tensor>{self->receive_sums()};
                       });
}

at::Tensor TokenDispatch::receive_sums() {
  const at::Tensor choices = receive_choices();
  return choices.view({choices.size(0) / top_k_, top_k_, choices.size(1)}).sum(1);
}

at::Tensor TokenDispatch::receive_tokens(const at::Tensor& under_way) {
  at::Tensor layout;
  {
    const at::NoGradGuard no_grad;
    layout = receive_rows();
  }
  return with_gradient(layout, {under_way},
                       [self = shared_from_this()](const at::Tensor& gradient) {
                         self->return_rows(gradient);
                         return std::vector<at::Tensor>{at::empty({0}, self->options_)};
                       });
}

TokenDispatch::Mixed TokenDispatch::to_tokens(const at::Tensor& expert_outputs,
                                              const at::Tensor& weights) {
  const at::Tensor factors = weights.detach();
  at::Tensor choices, tokens;
  {
    const at::NoGradGuard no_grad;
    return_rows(expert_outputs.detach());
    choices = receive_choices();
    choices = choices.view({choices.size(0) / top_k_, top_k_, choices.size(1)});
    tokens = (choices * factors.unsqueeze(-1)).sum(1).to(choices.scalar_type());
  }
  tokens = with_gradient(
      tokens, {expert_outputs, weights},
      [self = shared_from_this(), factors, choices](const at::Tensor& gradient) {
        self->send_gradients(gradient, factors);
        const at::Tensor of_choices =
            gradient.to(factors.scalar_type()).unsqueeze(1).expand(choices.sizes());
        const at::Tensor of_weights = (of_choices * choices).sum(2);
        return std::vector<at::Tensor>{self->receive_gradients(factors.scalar_type()), of_weights};
      });
  return {tokens, [choices] { return choices; }};
}

}  // namespace evermoe
