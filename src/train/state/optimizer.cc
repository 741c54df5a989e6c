#include "train/state/optimizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "tensor/host_bytes.h"
#include "train/state/state_transfer.h"

namespace evermoe {
namespace {

// Parameters of narrow state that are widened at a time.
constexpr int64_t kWideParameters = int64_t{1} << 16;

// A part of the state in FP32: the stored numbers themselves, or a copy that has to be put back.
class WidePart {
 public:
  WidePart(OperatorState& state, StatePart part, FlatRange own)
      : stored_(stored_range(part_of(state, part), own)),
        is_root_(is_root(part, stored_.scalar_type())),
        values_(is_root_ ? widened(stored_).square() : widened(stored_)) {}
  const at::Tensor& values() const { return values_; }
  void put_back(const RoundingStream& random) const {
    if (!is_narrow(stored_.scalar_type())) return;
    narrow_into(is_root_ ? values_.sqrt() : values_, stored_,
                {.random = random, .keeps_positive = is_root_});
  }

 private:
  const at::Tensor stored_;
  const bool is_root_;
  const at::Tensor values_;
};

}  // namespace

double gradient_square_sum(const std::vector<OperatorState*>& operators) {
  std::vector<at::Tensor> shards;
  for (const OperatorState* state : operators) {
    if (state->is_frozen()) continue;
    const at::Tensor shard = state->shard_gradient();
    if (shard.numel() > 0) shards.push_back(shard);
  }
  if (shards.empty()) return 0;
  double sum = 0;
  // All at once, because each wait for a device costs more than a norm.
  const at::Tensor all = at::stack(at::_foreach_norm(shards, 2)).to(at::kDouble).cpu();
  for (const double norm : host_values<double>(all)) sum += norm * norm;
  return sum;
}

AdamW::AdamW(const TrainConfig& train, const StepRecord& record, int64_t updates_applied,
             at::Device device)
    : train_(train),
      learning_rate_(record.learning_rate),
      updates_applied_(updates_applied),
      step_(at::full({}, static_cast<double>(updates_applied),
                     at::TensorOptions().dtype(at::kFloat).device(device))),
      divisor_(at::full({}, record.gradient_divisor,
                        at::TensorOptions().dtype(at::kFloat).device(device))) {}

void AdamW::update(const std::vector<OperatorRange>& ranges) const {
  const at::NoGradGuard no_grad;
  Tensors decayed, others;
  for (const auto& [state, range] : ranges) {
    const FlatRange own = state->in_shard(range);
    const int64_t boundary =
        std::clamp(state->spec().decayed_size - state->shard().begin, own.begin, own.end);
    add(*state, {own.begin, boundary}, train_.weight_decay, decayed);
    add(*state, {boundary, own.end}, 0, others);
  }
  step(decayed, train_.weight_decay);
  step(others, 0);
}

void AdamW::add(OperatorState& state, FlatRange own, double weight_decay, Tensors& tensors) const {
  if (own.size() == 0) return;
  const std::vector<at::Tensor> parts = {state.master(), state.exp_avg(), state.exp_avg_sq()};
  if (std::ranges::any_of(parts, is_narrow, &at::Tensor::scalar_type))
    return update_narrow(state, own, weight_decay);
  const auto part = [&](const at::Tensor& shard) { return stored_range(shard, own); };
  tensors.master.push_back(part(parts[0]));
  tensors.gradient.push_back(part(state.shard_gradient()));
  tensors.exp_avg.push_back(part(parts[1]));
  tensors.exp_avg_sq.push_back(part(parts[2]));
}

void AdamW::step(const Tensors& tensors, double weight_decay) const {
  if (tensors.master.empty()) return;
  at::_fused_adamw_(tensors.master, tensors.gradient, tensors.exp_avg, tensors.exp_avg_sq,
                    /*max_exp_avg_sqs=*/{}, std::vector(tensors.master.size(), step_),
                    learning_rate_, train_.beta1, train_.beta2, weight_decay, train_.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, divisor_,
                    /*found_inf=*/std::nullopt);
}

void AdamW::update_narrow(OperatorState& state, FlatRange own, double weight_decay) const {
  for (int64_t begin = own.begin; begin < own.end; begin += kWideParameters) {
    const FlatRange range{begin, std::min(begin + kWideParameters, own.end)};
    const WidePart master(state, StatePart::kMaster, range),
        exp_avg(state, StatePart::kExpAvg, range), exp_avg_sq(state, StatePart::kExpAvgSq, range);
    step({{master.values()},
          {stored_range(state.shard_gradient(), range)},
          {exp_avg.values()},
          {exp_avg_sq.values()}},
         weight_decay);
    master.put_back(rounding(state, StatePart::kMaster, begin));
    exp_avg.put_back(rounding(state, StatePart::kExpAvg, begin));
    exp_avg_sq.put_back(rounding(state, StatePart::kExpAvgSq, begin));
  }
}

RoundingStream AdamW::rounding(const OperatorState& state, StatePart part, int64_t first) const {
  const std::string name = absl::StrCat(train_.seed, "/", updates_applied_, "/", state.spec().name,
                                        "/", to_string(part));
  return {.key = fingerprint(std::as_bytes(std::span(name))).low,
          .first = state.shard().begin + first};
}

}  // namespace evermoe
