// The tokens of a lane that is alone in its stage group: planned on the device and moved there, so
// that no layer waits for the device or for the host.
#pragma once

#include "train/dispatch/token_dispatch.h"

namespace evermoe {

class LoneDispatch final : public TokenDispatch {
 public:
  // TokenDispatch::start().
  LoneDispatch(const at::Tensor& experts, const at::Tensor& load, at::TensorOptions options);

  Mixed to_tokens(const at::Tensor& expert_outputs, const at::Tensor& weights) override;

 private:
  void send_rows(const at::Tensor& tokens) override;
  at::Tensor receive_rows() override;
  void send_gradients(const at::Tensor& gradient, const at::Tensor& weights) override;
  at::Tensor receive_gradients(at::ScalarType wide) override;
  void return_rows(const at::Tensor& layout_rows) override;
  at::Tensor receive_choices() override;
  at::Tensor receive_sums() override;

  at::Tensor choice_of_row_;  // row of the expert layout -> choice
  at::Tensor token_of_row_;
  at::Tensor row_of_choice_;
  at::Tensor under_way_;  // rows of the expert layout that were sent and not received
};

}  // namespace evermoe
