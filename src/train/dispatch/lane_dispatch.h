// Tokens between the lanes of a stage group: planned on the hosts of all lanes, which tell each
// other how many rows come.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experts/dispatch/dispatch_plan.h"
#include "experts/dispatch/token_rows.h"
#include "train/dispatch/row_exchange.h"
#include "train/dispatch/token_dispatch.h"

namespace evermoe {

class LaneDispatch final : public TokenDispatch {
 public:
  // `experts` [T, top_k]: of the choices. Waits for the other lanes' row counts.
  LaneDispatch(Communicator& stage_group, const ExpertPlacement& placement,
               const at::Tensor& experts, at::TensorOptions options, int64_t row_bytes);

 private:
  void send_rows(const at::Tensor& tokens) override;
  at::Tensor receive_rows() override;
  void send_gradients(const at::Tensor& gradient, const at::Tensor& weights) override;
  at::Tensor receive_gradients(at::ScalarType wide) override;
  void return_rows(const at::Tensor& layout_rows) override;
  at::Tensor receive_choices() override;

  // To the experts: token rows (those of token_of_row_) and notes, one of each choice in send
  // order.
  void start_to_experts(const at::Tensor& rows, std::span<const int64_t> notes);
  at::Tensor finish_to_experts();
  // The notes that have come, by source lane; empty where there are none.
  std::vector<std::vector<int64_t>> notes() const;

  Communicator& group_;
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
  std::optional<RowExchange> under_way_;
};

}  // namespace evermoe
