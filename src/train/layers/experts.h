// The feed-forward networks: dense, shared and routed experts.
#pragma once

#include <memory>
#include <vector>

#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/dispatch/expert_layout.h"
#include "train/state/operator_state.h"

namespace evermoe {

// A feed-forward network's parameters inside an operator, names beginning with `prefix`.
struct FeedForward {
  FeedForward(const OperatorState& state, const std::string& prefix, ActivationKind activation);
  const Parameter* up = nullptr;
  const Parameter* up_bias = nullptr;  // null without biases
  const Parameter* down = nullptr;
  const Parameter* down_bias = nullptr;
  ActivationKind activation;

  // x [N, hidden] -> [N, hidden]
  at::Tensor forward(const at::Tensor& x) const;
};

// A matrix of all hosted experts as one tensor [experts, out, in]: views of their compute weights
// and of the accumulators of their gradients.
struct StackedMatrix {
  at::Tensor value;
  at::Tensor gradient;
};

// For products of all experts at once (grouped), which a GPU computes in one kernel.
struct StackedExperts {
  StackedMatrix up;
  StackedMatrix down;
  bool is_defined() const { return up.value.defined(); }
};

// Undefined where the experts do not lie equally far apart in one piece of memory, or have biases
// or products in FP8.
StackedExperts stack_experts(const std::vector<FeedForward>& experts);

// Runs every hosted expert on its rows of the expert layout: one graph node for all of them. Weight
// gradients are added expert by expert, or, where products are grouped, all at once: then each is
// rounded to the type of the rows before it is added, once a micro-batch, because PyTorch's grouped
// product has no wider result. `experts[i]` serves `expert_layout->rows()[i]`, which grouped
// products do not ask for. `recomputes`: what is inside the experts is computed again in the
// backward pass, with the same bits, instead of being kept. `stack`: of the same experts, for
// grouped products; undefined: a product for each expert.
at::Tensor run_experts(const at::Tensor& layout, const std::vector<FeedForward>& experts,
                       const std::shared_ptr<ExpertLayout>& expert_layout, bool recomputes,
                       const StackedExperts& stack = {});

}  // namespace evermoe
