// The tokens of a lane that is alone in its stage group: planned on the device and moved there, so
// that no layer waits for the device or for the host.
#pragma once

#include "train/layers/token_dispatch.h"

namespace evermoe {

class LoneDispatch final : public TokenDispatch {
 public:
  LoneDispatch(const GateChoice& choice, at::TensorOptions options);

 private:
  void send_rows(const at::Tensor& tokens) override;
  at::Tensor receive_rows() override;
  void send_gradients(const at::Tensor& gradient, const at::Tensor& weights) override;
  at::Tensor receive_gradients(at::ScalarType wide) override;
  void return_rows(const at::Tensor& layout_rows) override;
  at::Tensor receive_choices() override;

  at::Tensor choice_of_row_;  // row of the expert layout -> choice
  at::Tensor token_of_row_;
  at::Tensor row_of_choice_;
  at::Tensor under_way_;  // what was sent and not received
};

}  // namespace evermoe
