#include "train/state/optimizer.h"

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

AdamW::AdamW(const TrainConfig& train, const StepRecord& record, int64_t updates_applied,
             at::Device device)
    : train_(train),
      learning_rate_(record.learning_rate),
      step_(at::full({}, static_cast<double>(updates_applied),
                     at::TensorOptions().dtype(at::kFloat).device(device))),
      divisor_(at::full({}, record.gradient_divisor,
                        at::TensorOptions().dtype(at::kFloat).device(device))) {}

void AdamW::update(OperatorState& state, FlatRange range) const {
  const FlatRange own = state.in_shard(range);
  const int64_t boundary =
      std::clamp(state.spec().decayed_size - state.shard().begin, own.begin, own.end);
  update_in_shard(state, {own.begin, boundary}, train_.weight_decay);
  update_in_shard(state, {boundary, own.end}, 0);
}

void AdamW::update_in_shard(OperatorState& state, FlatRange own, double weight_decay) const {
  if (own.size() == 0) return;
  const at::NoGradGuard no_grad;
  const auto part = [&](const at::Tensor& shard) {
    return std::vector<at::Tensor>{shard.narrow(0, own.begin, own.size())};
  };
  at::_fused_adamw_(part(state.master()), part(state.shard_gradient()), part(state.exp_avg()),
                    part(state.exp_avg_sq()),
                    /*max_exp_avg_sqs=*/{}, {step_}, learning_rate_, train_.beta1, train_.beta2,
                    weight_decay, train_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor_,
                    /*found_inf=*/std::nullopt);
}

}  // namespace evermoe
