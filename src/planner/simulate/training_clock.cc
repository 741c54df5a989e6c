#include "planner/simulate/training_clock.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace evermoe {
namespace {

double stalls(const PeriodicSave& save, int64_t steps) {
  return save.every_steps > 0 ? static_cast<double>(steps / save.every_steps) * save.stall_seconds
                              : 0;
}

double stall_per_step(const PeriodicSave& save) {
  return save.every_steps > 0 ? save.stall_seconds / static_cast<double>(save.every_steps) : 0;
}

}  // namespace

TrainingClock::TrainingClock(double step_seconds, const PeriodicSave& save,
                             const PeriodicSave& fallback)
    : step_seconds_(step_seconds), save_(save), fallback_(fallback) {
  CHECK(step_seconds > 0) << step_seconds;
  CHECK(save.every_steps >= 0 && save.stall_seconds >= 0 && fallback.every_steps >= 0 &&
        fallback.stall_seconds >= 0);
}

double TrainingClock::at(int64_t steps) const {
  return static_cast<double>(steps) * step_seconds_ + stalls(save_, steps) +
         stalls(fallback_, steps);
}

// The mean rate is off by at most one stall of each kind; between these bounds by bisection.
TrainingClock::Position TrainingClock::position(double clock) const {
  CHECK(clock >= 0) << clock;
  const double mean = step_seconds_ + stall_per_step(save_) + stall_per_step(fallback_);
  const double most_stall = save_.stall_seconds + fallback_.stall_seconds;
  auto low = std::max<int64_t>(0, static_cast<int64_t>(clock / mean) - 1);
  auto high = static_cast<int64_t>((clock + most_stall) / mean) + 2;
  while (at(low) > clock) --low;  // rounding
  while (at(high) <= clock) ++high;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (at(middle) <= clock ? low : high) = middle;
  }
  return {low, std::min(1.0, (clock - at(low)) / step_seconds_)};
}

int64_t TrainingClock::newest_usable(const PeriodicSave& save, double clock) const {
  if (save.every_steps == 0 || clock < save.durable_after_seconds) return 0;
  const int64_t steps = position(clock - save.durable_after_seconds).steps;
  int64_t newest = steps / save.every_steps * save.every_steps;
  // clock - durable may have lost the last bit of at(newest).
  if (at(newest + save.every_steps) + save.durable_after_seconds <= clock)
    newest += save.every_steps;
  return newest;
}

}  // namespace evermoe
