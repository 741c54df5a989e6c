// How long a rank would like its windows to be: what copying costs every step against what a
// recovery costs now and then. Pure.
//
// The planner is protection/schedule/window_plan.h, which the forecast uses, too; here it gets what
// was measured.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "protection/schedule/window_plan.h"
#include "recovery/plan/operator_ordering.h"

namespace evermoe {

// What does not change while the job runs.
struct WindowConditions {
  double copy_bytes_per_second = 0;
  int64_t log_bytes = 0;  // boundary messages kept of a step
  RecoveryProfile recovery;
  int slots_max = 1;
  // Copying takes time from the processors that train, instead of engines of its own.
  bool copies_slow_training = true;
};

// What the planner has to know. Own bytes count for copying, whole operators for the work that is
// run again; the rule and the counts are the ordering's, so that the window that is priced is the
// one that lanes take.
WindowPlanInput plan_input(const OperatorOrdering& ordering, const StepProfile& step,
                           const WindowConditions& conditions);

// The cheapest from 1 to `slots_max`; among equals the shortest. Memory is no limit here:
// `slots_max` is what there is memory for.
WindowPlan choose_window(const OperatorOrdering& ordering, const StepProfile& step,
                         const WindowConditions& conditions);

// Measures steps and answers when there is reason to.
class WindowChooser {
 public:
  explicit WindowChooser(const WindowConditions& conditions) : conditions_(conditions) {}

  // So far the copying thread has worked `copying_seconds` for `captured_bytes`.
  void add_step(double seconds, double copying_seconds, int64_t captured_bytes);
  // 0 before kStepsMin steps have been measured. The same answer as long as neither the pace nor
  // the price of copying has moved by more than a quarter.
  int wanted(const OperatorOrdering& ordering);
  // Of the last answer.
  const WindowPlan& plan() const { return plan_; }

 private:
  static constexpr size_t kStepsMin = 5;
  static constexpr size_t kStepsMax = 33;
  struct Measured {
    double seconds = 0, copying_seconds = 0;
    int64_t captured_bytes = 0;
  };
  StepProfile profile() const;

  const WindowConditions conditions_;
  std::deque<Measured> newest_;
  std::optional<StepProfile> answered_for_;
  WindowPlan plan_;
};

}  // namespace evermoe
