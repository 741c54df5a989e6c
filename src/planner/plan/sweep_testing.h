// A forecast that costs nothing, for tests of sweeps and of the pages that show them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "planner/plan/sweep.h"

namespace evermoe {

// The model's name is the last setting. "n=2" is refused for want of room, "n=bad" as bad input.
inline absl::StatusOr<RunForecast> pretended(const std::vector<std::string>& settings) {
  if (settings.front() == "n=2") return NoCapacity("too small");
  if (settings.front() == "n=bad") return InvalidInput("no such thing");
  RunForecast run;
  run.model = settings.back();
  run.step.profile.step_seconds = 2;
  run.estimates.ettr = {.count = 4, .mean = 0.9, .low = 0.89, .high = 0.91};
  return run;
}

}  // namespace evermoe
