#include "control/controller/step_pace.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace evermoe {

void StepPace::add(absl::Duration step_time) {
  newest_.push_back(step_time);
  if (newest_.size() > kWindowSteps) newest_.pop_front();
}

absl::Duration StepPace::median() const {
  if (newest_.empty()) return absl::ZeroDuration();
  std::vector<absl::Duration> times(newest_.begin(), newest_.end());
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

absl::Duration StepPace::mean() const {
  if (newest_.empty()) return absl::ZeroDuration();
  return std::accumulate(newest_.begin(), newest_.end(), absl::ZeroDuration()) /
         static_cast<int64_t>(newest_.size());
}

absl::Duration StepPace::limit(absl::Duration at_least) const {
  const absl::Duration newest = newest_.empty() ? absl::ZeroDuration() : newest_.back();
  return std::max({at_least, medians_max_ * median(), 2 * newest});
}

}  // namespace evermoe
