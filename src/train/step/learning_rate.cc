#include "train/step/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace evermoe {

double learning_rate(const TrainConfig& train, Step step) {
  const double peak = train.learning_rate, low = train.final_learning_rate;
  const int64_t steps = train.schedule_steps > 0 ? train.schedule_steps : train.steps;
  const int64_t at = std::min(step.value, steps - 1);  // afterwards it stays
  if (at < train.warmup_steps) {
    return peak * static_cast<double>(at + 1) / static_cast<double>(train.warmup_steps);
  }
  // Progress of the falling part, 0 at its first step and 1 at the last step of the schedule.
  const auto progress = [&](int64_t first) {
    const int64_t span = std::max<int64_t>(steps - 1 - first, 1);
    return std::clamp(static_cast<double>(at - first) / static_cast<double>(span), 0.0, 1.0);
  };
  switch (train.schedule) {
    case LearningRateShape::kConstant: return peak;
    case LearningRateShape::kCosine:
      return low +
             (peak - low) * 0.5 * (1 + std::cos(std::numbers::pi * progress(train.warmup_steps)));
    case LearningRateShape::kWsd: return peak + (low - peak) * progress(steps - train.decay_steps);
  }
  return peak;
}

}  // namespace evermoe
