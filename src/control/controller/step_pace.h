// How long a step of this job takes, measured, and from that how long one may take.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace evermoe {

class StepPace {
 public:
  static constexpr size_t kWindowSteps = 65;

  // Steps longer than so many medians are taken for a standstill.
  explicit StepPace(double medians_max = 20) : medians_max_(medians_max) {}

  void add(absl::Duration step_time);
  // Zero before the first step.
  absl::Duration median() const;
  // Of the same steps. A line that is slow for a while hands over commits in bursts, of which the
  // median tells nothing.
  absl::Duration mean() const;
  // max(at_least, medians_max * median(), twice the newest step): lines that have become slow are
  // believed at their first step.
  absl::Duration limit(absl::Duration at_least) const;

 private:
  double medians_max_;
  std::deque<absl::Duration> newest_;  // at most kWindowSteps
};

}  // namespace evermoe
