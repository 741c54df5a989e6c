#include "train/step/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "train/step/learning_rate.h"

namespace evermoe {
namespace {

constexpr size_t kScalarSums = 7;

}  // namespace

Findings to_findings(const StepFindings& own) {
  Findings findings{{own.gradient_square_sum, own.loss_sum, own.auxiliary_loss_sum,
                     own.load_imbalance_sum, own.gate_count, own.tokens, own.hits},
                    {own.prepared.value, own.drain ? 0 : 1, own.published.value, own.non_finite,
                     -own.save_interval, -own.refused.value, own.prepared_locally.value,
                     -own.prepared_locally.value, own.poisoned, -own.last_save.value}};
  findings.sums.insert(findings.sums.end(), own.routing_skew.begin(), own.routing_skew.end());
  findings.sums.insert(findings.sums.end(), own.expert_tokens.begin(), own.expert_tokens.end());
  return findings;
}

StepFindings from_findings(const Findings& combined, size_t moe_layers) {
  const std::vector<double>& sums = combined.sums;
  const std::vector<int64_t>& minima = combined.minima;
  CHECK(sums.size() >= kScalarSums + moe_layers && minima.size() == 10)
      << sums.size() << " sums and " << minima.size() << " minima";
  const auto skew = sums.begin() + kScalarSums;
  return {.gradient_square_sum = sums[0],
          .loss_sum = sums[1],
          .auxiliary_loss_sum = sums[2],
          .load_imbalance_sum = sums[3],
          .gate_count = sums[4],
          .tokens = sums[5],
          .hits = sums[6],
          .prepared = Step(minima[0]),
          .prepared_locally = minima[6] == -minima[7] ? Step(minima[6]) : Step(-1),
          .drain = minima[1] == 0,
          .published = Step(minima[2]),
          .non_finite = minima[3],
          .poisoned = minima[8],
          .save_interval = -minima[4],
          .refused = Step(-minima[5]),
          .last_save = Step(-minima[9]),
          .routing_skew = {skew, skew + static_cast<std::ptrdiff_t>(moe_layers)},
          .expert_tokens = {skew + static_cast<std::ptrdiff_t>(moe_layers), sums.end()}};
}

StepRecord decide(const StepFindings& combined, const TrainConfig& train,
                  const TrainingPosition& before) {
  const auto micro_batches = static_cast<double>(train.micro_batches);
  StepRecord record;
  record.step = Step(before.step.value + 1);
  record.loss_scale = before.loss_scale;
  record.learning_rate = learning_rate(train, before.step);
  record.gradient_norm = std::sqrt(combined.gradient_square_sum) / before.loss_scale;
  record.applied = std::isfinite(combined.gradient_square_sum) &&
                   std::isfinite(combined.loss_sum) && std::isfinite(combined.auxiliary_loss_sum);
  const double clip = train.clip_norm > 0 && record.gradient_norm > train.clip_norm
                          ? train.clip_norm / record.gradient_norm
                          : 1.0;
  record.gradient_divisor = before.loss_scale / clip;
  record.loss = combined.loss_sum / micro_batches;
  record.auxiliary_loss = combined.auxiliary_loss_sum / micro_batches;
  record.load_imbalance =
      combined.gate_count > 0 ? combined.load_imbalance_sum / combined.gate_count : 0;
  record.routing_skew = combined.routing_skew;
  record.tokens = static_cast<int64_t>(combined.tokens);
  record.prepared = combined.prepared;
  record.prepared_locally = combined.prepared_locally;
  record.drain = combined.drain;
  record.non_finite = combined.non_finite;
  record.poisoned = combined.poisoned;
  record.save_interval = combined.save_interval;
  record.published = combined.published;
  record.refused = combined.refused;
  record.last_save = combined.last_save;
  return record;
}

TrainingPosition advance(const TrainingPosition& before, const StepRecord& record,
                         const TrainConfig& train) {
  TrainingPosition after = before;
  after.step = record.step;
  after.samples += train.micro_batches * train.micro_batch_size;
  if (record.applied) ++after.updates_applied;
  if (train.precision != Precision::kFp16) return after;
  if (!record.applied) {
    after.loss_scale = std::max(before.loss_scale / 2, kLossScaleMin);
    after.loss_scale_good_steps = 0;
  } else if (++after.loss_scale_good_steps >= train.loss_scale_growth_steps) {
    // A scale that began above the limit stays where it is: growth never lowers it.
    after.loss_scale = std::max(before.loss_scale, std::min(before.loss_scale * 2, kLossScaleMax));
    after.loss_scale_good_steps = 0;
  }
  return after;
}

}  // namespace evermoe
