#include "train/optimizer.h"

#include <algorithm>

namespace evermoe {

double gradient_square_sum(const std::vector<OperatorState*>& operators) {
  double sum = 0;
  for (const OperatorState* state : operators) {
    if (state->is_frozen()) continue;
    const at::Tensor shard = state->shard_gradient();
    if (shard.numel() == 0) continue;
    const double norm = at::linalg_vector_norm(shard, 2).item<double>();
    sum += norm * norm;
  }
  return sum;
}

AdamW::AdamW(const TrainConfig& train, const StepRecord& record, int64_t updates_applied, at::Device device)
    : train_(train), learning_rate_(record.learning_rate),
      step_(at::full({}, static_cast<double>(updates_applied), at::TensorOptions().dtype(at::kFloat).device(device))),
      divisor_(at::full({}, record.gradient_divisor, at::TensorOptions().dtype(at::kFloat).device(device))) {}

void AdamW::update(OperatorState& state) const {
  const FlatRange shard = state.shard();
  const int64_t boundary = std::clamp<int64_t>(state.spec().decayed_size - shard.begin, 0, shard.size());
  update(state, 0, boundary, train_.weight_decay);
  update(state, boundary, shard.size(), 0);
}

void AdamW::update(OperatorState& state, int64_t begin, int64_t end, double weight_decay) const {
  if (begin >= end) return;
  const at::NoGradGuard no_grad;
  const auto part = [&](const at::Tensor& shard) { return std::vector<at::Tensor>{shard.narrow(0, begin, end - begin)}; };
  at::_fused_adamw_(part(state.master()), part(state.shard_gradient()), part(state.exp_avg()), part(state.exp_avg_sq()),
                    /*max_exp_avg_sqs=*/{}, {step_}, learning_rate_, train_.beta1, train_.beta2, weight_decay,
                    train_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor_, /*found_inf=*/std::nullopt);
}

}  // namespace evermoe
