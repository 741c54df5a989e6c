// How long a rank would like its windows to be: what copying costs every step against what a recovery
// costs now and then. Pure.
//
// Window length and capture order are chosen together, by the expected cost of checkpoint/window_plan.h:
// every length is priced with the order and the slots that it would really have (operator_ordering.h).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/window_plan.h"
#include "recovery/operator_ordering.h"

namespace evermoe {

// What does not change while the job runs.
struct WindowConditions {
  double copy_bytes_per_second = 0;
  int64_t log_bytes = 0;      // boundary messages kept of a step
  RecoveryProfile recovery;
  int slots_max = 1;
  // Copying takes time from the processors that train, instead of engines of its own.
  bool copies_slow_training = true;
};

struct WindowPrice {
  int slots = 0;
  double stall_share = 0;     // of training time, for copies that come too late
  double slowdown_share = 0;  // for the work of copying
  double recovery_seconds = 0;
  double cost = 0;            // as a share of training time
};

// Own bytes count for copying, whole operators for the work that is run again.
WindowPrice price_window(const OperatorOrdering& ordering, int slots, const StepProfile& step, const RecoveryProfile& recovery);

// The cheapest from 1 to `slots_max`; among equals the shortest.
WindowPrice choose_window(const OperatorOrdering& ordering, const StepProfile& step, const WindowConditions& conditions);

// Measures steps and answers when there is reason to.
class WindowChooser {
 public:
  explicit WindowChooser(const WindowConditions& conditions) : conditions_(conditions) {}

  // So far the copying thread has worked `copying_seconds` for `captured_bytes`.
  void add_step(double seconds, double copying_seconds, int64_t captured_bytes);
  // 0 before kStepsMin steps have been measured. The same answer as long as neither the pace nor the price of
  // copying has moved by more than a quarter.
  int wanted(const OperatorOrdering& ordering);
  // Of the last answer.
  const WindowPrice& price() const { return price_; }

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
  WindowPrice price_;
};

}  // namespace evermoe
