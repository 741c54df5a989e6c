// Tokens to experts and back, inside one stage group: exactly the rows there are, with backward.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "experts/placement/expert_placement.h"
#include "tensor/torch.h"
#include "train/dispatch/expert_layout.h"

namespace evermoe {

// The journey of one micro-batch's tokens through one MoE layer. Every lane of the stage group must
// take it at the same time, a lane without a micro-batch with zero choices. Communication errors
// are thrown as StatusError (autograd is above us), in forward and in backward.
//
// What is computed between send_tokens() and receive_tokens() is computed while tokens are under
// way, and so is its backward, because autograd runs nodes in the reverse order of their making:
// the backward of receive_tokens() sends gradients off, that of send_tokens() waits for them.
//
// Shared, because the backward functions of the graph hold on to it.
class TokenDispatch : public std::enable_shared_from_this<TokenDispatch> {
 public:
  // How the rows go. Between lanes, every lane plans on its host (lane_dispatch.h). A lane that is
  // alone may plan on its device, which nobody waits for then (lone_dispatch.h).
  enum class Planner { kHost, kDevice };

  // Plans the way of the tokens, of which those of experts with replicas are shared out so that the
  // busiest lane has least (experts/placement/load_sharing.h). `experts` [T, top_k] int64: of every
  // choice; `load` [experts]: how many choices name each. `tokens` [T, hidden]: of that device,
  // type and width are the rows. REQUIRES: kDevice only for a group of one.
  static std::shared_ptr<TokenDispatch> start(Communicator& stage_group,
                                              const ExpertPlacement& placement,
                                              const at::Tensor& experts, const at::Tensor& load,
                                              const at::Tensor& tokens,
                                              Planner planner = Planner::kHost);
  virtual ~TokenDispatch() = default;
  TokenDispatch(const TokenDispatch&) = delete;

  // The rows of the expert layout, hosted experts in order.
  const std::shared_ptr<ExpertLayout>& layout() const { return layout_; }

  // Sends tokens [T, hidden] off, and never waits. The result has no elements: it stands for the
  // tokens under way.
  at::Tensor send_tokens(const at::Tensor& tokens);
  // Rows of the expert layout [layout_rows, hidden]; padding rows are zero.
  at::Tensor receive_tokens(const at::Tensor& under_way);

  struct Mixed {
    at::Tensor tokens;  // [T, hidden]: the sum of its choices' outputs times their weights
    // [T, top_k, hidden]: these outputs, put together when they are asked for; not part of the
    // graph.
    std::function<at::Tensor()> choices;
  };
  // Expert outputs [layout_rows, hidden] back to their tokens. weights [T, top_k], in at least
  // FP32, as is the sum.
  virtual Mixed to_tokens(const at::Tensor& expert_outputs, const at::Tensor& weights);

 protected:
  TokenDispatch(int64_t top_k, at::TensorOptions options) : top_k_(top_k), options_(options) {}

  // The four ways, each in two halves, of which the second waits. None has a gradient.
  //
  // Tokens [T, hidden], of which every choice gets its token's row, to the expert layout.
  virtual void send_rows(const at::Tensor& tokens) = 0;
  virtual at::Tensor receive_rows() = 0;
  // The same of the tokens' gradients [T, hidden] times their choices' weights [T, top_k].
  virtual void send_gradients(const at::Tensor& gradient, const at::Tensor& weights) = 0;
  virtual at::Tensor receive_gradients(at::ScalarType wide) = 0;
  // Rows of the expert layout, each back to its choice: [T * top_k, hidden].
  virtual void return_rows(const at::Tensor& layout_rows) = 0;
  virtual at::Tensor receive_choices() = 0;
  // The same, and the rows of a token's choices added in their order: [T, hidden].
  virtual at::Tensor receive_sums();

  const int64_t top_k_;
  const at::TensorOptions options_;  // of the rows
  std::shared_ptr<ExpertLayout> layout_;
};

// rows [n, width] times factors [n], in the type of the factors, back in that of the rows.
at::Tensor scaled(const at::Tensor& rows, const at::Tensor& factors);

}  // namespace evermoe
