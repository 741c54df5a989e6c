// Tokens to experts and back, inside one stage group: exactly the rows there are, with backward.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "experts/dispatch/dispatch_plan.h"
#include "experts/dispatch/token_rows.h"
#include "tensor/torch.h"
#include "train/layers/row_exchange.h"

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
  // Plans the way of the tokens, of which those of an expert with replicas are shared out evenly
  // (experts/dispatch/replica_dispatch.h), and exchanges the row counts. `experts`: the expert of
  // each choice (token * top_k + k); `tokens` [T, hidden]: of that device, type and width are the
  // rows.
  static std::shared_ptr<TokenDispatch> start(Communicator& stage_group,
                                              const ExpertPlacement& placement,
                                              std::span<const int64_t> experts, int64_t top_k,
                                              const at::Tensor& tokens);

  // The rows of the expert layout, hosted experts in order.
  const std::vector<ExpertRows>& expert_rows() const { return receive_.experts; }

  // Sends tokens [T, hidden] off, and never waits. The result has no elements: it stands for the
  // tokens under way.
  at::Tensor send_tokens(const at::Tensor& tokens);
  // Rows of the expert layout [layout_rows, hidden]; padding rows are zero.
  at::Tensor receive_tokens(const at::Tensor& under_way);

  struct Mixed {
    at::Tensor tokens;   // [T, hidden]: the sum of its choices' outputs times their weights
    at::Tensor choices;  // [T, top_k, hidden]: these outputs; not part of the graph
  };
  // Expert outputs [layout_rows, hidden] back to their tokens. weights [T, top_k], in at least
  // FP32, as is the sum.
  Mixed to_tokens(const at::Tensor& expert_outputs, const at::Tensor& weights);

 private:
  TokenDispatch(Communicator& stage_group, int64_t top_k, at::TensorOptions options)
      : group_(stage_group), top_k_(top_k), options_(options) {}

  void plan(const ExpertPlacement& placement, std::span<const int64_t> experts, int64_t row_bytes);
  // To the experts: token rows (those of token_of_row_) and notes, one of each choice in send
  // order.
  void start_to_experts(const at::Tensor& rows, std::span<const int64_t> notes);
  at::Tensor finish_to_experts();
  // The notes that have come, by source lane; empty where there are none.
  std::vector<std::vector<int64_t>> notes() const;
  // From the experts: every choice's own row, in layout order there, in choice order here.
  void start_from_experts(const at::Tensor& layout_rows);
  at::Tensor finish_from_experts();

  // Whether no other lane is there: what would travel beside the rows never leaves the device.
  bool is_alone() const { return group_.size() == 1; }
  void send_gradients(const at::Tensor& gradient, const at::Tensor& weights);
  at::Tensor receive_gradients(at::ScalarType wide);

  Communicator& group_;
  const int64_t top_k_;
  const at::TensorOptions options_;  // of the rows
  SendPlan send_;
  ReceivePlan receive_;
  TokenRows rows_out_;
  std::vector<int64_t> token_rows_from_;    // by source lane, without notes
  std::vector<int64_t> message_rows_from_;  // with them
  // The plans' index lists on the compute device.
  at::Tensor token_of_row_;
  at::Tensor choice_position_;
  at::Tensor token_row_layout_;  // row of the expert layout -> row received; known with the notes
  at::Tensor layout_position_;
  at::Tensor choice_order_, layout_source_;  // where there is no other lane
  at::Tensor weights_of_alone_;              // likewise, while gradients are under way
  std::optional<RowExchange> under_way_;
};

}  // namespace evermoe
