// How long a step of this job takes, measured, and from that how long one may take.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace evermoe {

class StepPace {
 public:
  // Steps longer than so many medians are taken for a standstill.
  static constexpr int kMediansMax = 20;
  static constexpr size_t kWindowSteps = 65;

  void add(absl::Duration step_time);
  // Zero before the first step.
  absl::Duration median() const;
  // max(at_least, kMediansMax * median()).
  absl::Duration limit(absl::Duration at_least) const;

 private:
  std::deque<absl::Duration> newest_;  // at most kWindowSteps
};

}  // namespace evermoe
