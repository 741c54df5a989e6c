#include "train/dispatch/lone_dispatch.h"

#include <utility>

#include "base/check.h"
#include "tensor/gradient_node.h"
#include "tensor/kernels/fused.h"

namespace evermoe {

LoneDispatch::LoneDispatch(const at::Tensor& experts, const at::Tensor& load,
                           at::TensorOptions options)
    : TokenDispatch(experts.size(1), options) {
  const at::NoGradGuard no_grad;
  // Narrow keys are sorted in half of the passes.
  const at::Tensor keys = experts.flatten().to(at::kInt);
  choice_of_row_ = std::get<1>(at::sort(keys, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  token_of_row_ = at::div(choice_of_row_, top_k_, "floor");
  row_of_choice_ = at::argsort(choice_of_row_.to(at::kInt));
  layout_ = std::make_shared<ExpertLayout>(load.cumsum(0).to(at::kInt));
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
  under_way_ = layout_rows;
}

at::Tensor LoneDispatch::receive_choices() {
  return receive_rows().index_select(0, row_of_choice_);
}

at::Tensor LoneDispatch::receive_sums() {
  if (!fused::has_kernels(under_way_)) return TokenDispatch::receive_sums();
  return fused::mix(receive_rows(), row_of_choice_.view({-1, top_k_}), /*weights=*/{});
}

TokenDispatch::Mixed LoneDispatch::to_tokens(const at::Tensor& expert_outputs,
                                             const at::Tensor& weights) {
  if (!fused::has_kernels(expert_outputs)) return TokenDispatch::to_tokens(expert_outputs, weights);
  const at::Tensor rows = expert_outputs.detach(), factors = weights.detach().contiguous(),
                   row_of = row_of_choice_.view({-1, top_k_});
  const at::Tensor tokens =
      with_gradient(fused::mix(rows, row_of, factors), {expert_outputs, weights},
                    [rows, factors, choice_of_row = choice_of_row_](const at::Tensor& gradient) {
                      const auto [of_rows, of_weights] =
                          fused::mix_backward(gradient.contiguous(), rows, choice_of_row, factors);
                      return std::vector<at::Tensor>{of_rows, of_weights};
                    });
  return {tokens, [rows, row_of] {
            return rows.index_select(0, row_of.flatten())
                .view({row_of.size(0), row_of.size(1), rows.size(1)});
          }};
}

}  // namespace evermoe
