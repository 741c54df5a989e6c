#include "train/layers/lone_dispatch.h"

#include <utility>

#include "base/check.h"

namespace evermoe {

LoneDispatch::LoneDispatch(const GateChoice& choice, at::TensorOptions options)
    : TokenDispatch(choice.experts.size(1), options) {
  const at::NoGradGuard no_grad;
  // Narrow keys are sorted in half of the passes.
  const at::Tensor experts = choice.experts.flatten().to(at::kInt);
  choice_of_row_ = std::get<1>(at::sort(experts, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  token_of_row_ = at::div(choice_of_row_, top_k_, "floor");
  row_of_choice_ = at::argsort(choice_of_row_.to(at::kInt));
  layout_ = std::make_shared<ExpertLayout>(choice.load.cumsum(0).to(at::kInt));
}

void LoneDispatch::send_rows(const at::Tensor& tokens) {
  CHECK(!under_way_.defined()) << "what was sent before was not received";
  under_way_ = tokens.index_select(0, token_of_row_);
}

at::Tensor LoneDispatch::receive_rows() { return std::exchange(under_way_, at::Tensor()); }

void LoneDispatch::send_gradients(const at::Tensor& gradient, const at::Tensor& weights) {
  send_rows(gradient);
  under_way_ = scaled(under_way_, weights.flatten().index_select(0, choice_of_row_));
}

at::Tensor LoneDispatch::receive_gradients(at::ScalarType /*wide*/) { return receive_rows(); }

void LoneDispatch::return_rows(const at::Tensor& layout_rows) {
  CHECK(!under_way_.defined()) << "what was sent before was not received";
  under_way_ = layout_rows.index_select(0, row_of_choice_);
}

at::Tensor LoneDispatch::receive_choices() { return receive_rows(); }

}  // namespace evermoe
