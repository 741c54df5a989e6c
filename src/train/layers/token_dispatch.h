// Tokens to experts and back, inside one stage group: all-to-all without padding, with its
// backward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "experts/dispatch/dispatch_plan.h"
#include "tensor/torch.h"

namespace evermoe {

// The journey of one micro-batch's tokens through one MoE layer. Every lane of the stage group must
// take it at the same time, a lane without a micro-batch with zero slots. Communication errors are
// thrown as StatusError (autograd is above us), in forward and in backward.
//
// Shared, because the backward functions of the graph hold on to it.
class TokenDispatch : public std::enable_shared_from_this<TokenDispatch> {
 public:
  // Exchanges the row counts. `experts`: the chosen expert of each slot (token * top_k + choice);
  // `tokens`: device and type of the rows.
  static std::shared_ptr<TokenDispatch> start(Communicator& stage_group,
                                              const ExpertPlacement& placement,
                                              std::span<const int64_t> experts, int64_t top_k,
                                              at::TensorOptions tokens);

  // The rows of the expert layout, hosted experts in order.
  const std::vector<ExpertRows>& expert_rows() const { return receive_.experts; }

  // tokens [T, hidden] -> rows of the expert layout [layout_rows, hidden]; padding rows are zero.
  at::Tensor to_experts(const at::Tensor& tokens);
  // Expert outputs [layout_rows, hidden] -> [T, top_k, hidden], choice j of token t at [t][j].
  at::Tensor to_tokens(const at::Tensor& expert_outputs);

 private:
  TokenDispatch(Communicator& stage_group, int64_t top_k) : group_(stage_group), top_k_(top_k) {}

  // Rows in send order -> rows in receive order, and the way back.
  at::Tensor exchange(const at::Tensor& rows, std::span<const int64_t> rows_out,
                      std::span<const int64_t> rows_in);
  at::Tensor slots_to_layout(const at::Tensor& slot_rows);
  at::Tensor layout_to_slots(const at::Tensor& layout_rows);

  Communicator& group_;
  const int64_t top_k_;
  SendPlan send_;
  ReceivePlan receive_;
  // The plans' index lists on the compute device.
  at::Tensor token_of_position_;  // send buffer position -> token
  at::Tensor slot_position_;
  at::Tensor layout_source_;
  at::Tensor layout_position_;
};

}  // namespace evermoe
