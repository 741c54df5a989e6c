// The clock of an uninterrupted run: how long steps and saves take together.
//
// Between two failures a run is deterministic, so its state is one number: the seconds it has run
// by this clock, on which step n ends at n (step seconds) plus the stalls of the saves until then.
// Going back to a save is setting the clock back; what happened within years is asked without
// counting steps.
#pragma once

#include <cstdint>

#include "planner/simulate/run_strategy.h"

namespace evermoe {

class TrainingClock {
 public:
  // Stalls of both kinds of saves add up where they fall on one step. REQUIRES: step_seconds > 0.
  TrainingClock(double step_seconds, const PeriodicSave& save, const PeriodicSave& fallback);

  // When `steps` steps and their saves are over. Ascending in steps.
  double at(int64_t steps) const;

  struct Position {
    int64_t steps = 0;    // over, with their saves
    double fraction = 0;  // of the next one; 1 while its save stalls
    double progress() const { return static_cast<double>(steps) + fraction; }
  };
  // REQUIRES: clock >= 0. position(at(n)) is n steps and nothing more. O(log) of stalls per step.
  Position position(double clock) const;

  // The step of the newest usable save at `clock`, 0 if there is none.
  int64_t newest_usable(const PeriodicSave& save, double clock) const;

 private:
  double step_seconds_;
  PeriodicSave save_;
  PeriodicSave fallback_;
};

}  // namespace evermoe
