// Where the wall time of simulated runs goes, cause by cause. The shares add up to 1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/simulate/estimate.h"
#include "planner/simulate/run_simulation.h"

namespace evermoe {

struct TimeCause {
  const char* key;      // "work_lost"
  const char* name;     // "work done again"
  const char* meaning;  // one sentence
  const char* colour;   // of it in every picture
  RunSpan::Kind span;   // what a run does then, as far as one kind of span is one cause
  double (*share)(const RunEstimates&);
};

// The first is training that stays done, the others are losses. Lives for ever.
std::span<const TimeCause> time_causes();

// The loss that fell most from one estimate to the other, and the one that rose most: "waiting for
// nodes (2.1 % to 0.3 %)". Empty if none did by more than 0.01 points.
std::string largest_fall(const RunEstimates& before, const RunEstimates& after);

}  // namespace evermoe
