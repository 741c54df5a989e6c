#include "train/optimizer.h"

#include <algorithm>

namespace evermoe {
namespace {

// The tensors of one kernel call: pieces of shards with the same weight decay.
struct Pieces {
  std::vector<at::Tensor> masters, gradients, exp_avgs, exp_avg_sqs, steps;

  void add(OperatorState& state, int64_t begin, int64_t end, const at::Tensor& step) {
    if (begin >= end) return;
    masters.push_back(state.master().narrow(0, begin, end - begin));
    gradients.push_back(state.shard_gradient().narrow(0, begin, end - begin));
    exp_avgs.push_back(state.exp_avg().narrow(0, begin, end - begin));
    exp_avg_sqs.push_back(state.exp_avg_sq().narrow(0, begin, end - begin));
    steps.push_back(step);
  }
};

}  // namespace

double gradient_square_sum(const std::vector<OperatorState*>& operators) {
  double sum = 0;
  for (const OperatorState* state : operators) {
    const at::Tensor shard = state->shard_gradient();
    if (shard.numel() == 0) continue;
    const double norm = at::linalg_vector_norm(shard, 2).item<double>();
    sum += norm * norm;
  }
  return sum;
}

void apply_adamw(const std::vector<OperatorState*>& operators, const TrainConfig& train,
                 const StepRecord& record, int64_t updates_applied) {
  if (operators.empty()) return;
  const at::NoGradGuard no_grad;
  const auto scalar = operators.front()->master().options().dtype(at::kFloat);
  const at::Tensor step = at::full({}, static_cast<double>(updates_applied), scalar);
  const at::Tensor divisor = at::full({}, record.gradient_divisor, scalar);
  Pieces decayed, undecayed;
  for (OperatorState* state : operators) {
    const FlatRange shard = state->shard();
    const int64_t boundary = std::clamp<int64_t>(state->spec().decayed_size - shard.begin, 0, shard.size());
    decayed.add(*state, 0, boundary, step);
    undecayed.add(*state, boundary, shard.size(), step);
  }
  const auto update = [&](Pieces& pieces, double weight_decay) {
    if (pieces.masters.empty()) return;
    at::_fused_adamw_(pieces.masters, pieces.gradients, pieces.exp_avgs, pieces.exp_avg_sqs,
                      /*max_exp_avg_sqs=*/{}, pieces.steps, record.learning_rate, train.beta1, train.beta2,
                      weight_decay, train.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor,
                      /*found_inf=*/std::nullopt);
  };
  update(decayed, train.weight_decay);
  update(undecayed, 0);
}

}  // namespace evermoe
