// Random faults from a seed, and what must be true after a run that suffered them.
#pragma once

#include <string>
#include <vector>

#include "sim/simulated_job.h"

namespace evermoe {

struct ScheduleOptions {
  std::vector<int> lanes;  // of each stage; empty: drawn from the seed
  int nodes = 0;           // 0: drawn
  int faults_max =
      3;  // faults of a run: 1 to this many (a kill that needs damaged copies is not counted)
  bool with_node_kills = true;
  bool with_controller_kills = true;
  bool with_stops = true;
  bool with_cuts = true;
  bool with_corruption = true;
  bool with_control_faults =
      true;  // agents and controllers that stand still, lines between them that fail
};

struct RandomSchedule {
  SimulatedShape shape;
  std::vector<SimulatedFault> faults;
};

// A function of its arguments alone.
RandomSchedule random_schedule(uint64_t seed, const ScheduleOptions& options);

struct ScheduleResult {
  uint64_t seed = 0;
  bool passed = false;
  std::string problem;  // one line; empty if passed
  SimulatedOutcome outcome;
  std::vector<std::string> faults;
  std::string transcript() const;  // for people
};

// Runs the schedule and the undisturbed job of the same shape, and checks: the same digest, or a
// restart or refusal that the loss of all copies justifies; every sample exactly once; the memory
// limits kept; the end within a minute of simulated time; no more than one process of a role acts
// in a view, and all by one plan; queues of the control plane within a limit; after one failure
// only the failed stage runs steps again, at most 2 W.
ScheduleResult run_schedule(uint64_t seed, const ScheduleOptions& options);

}  // namespace evermoe
