// Runs of random schedules, and what must be true after them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/random_schedule.h"
#include "sim/simulated_job.h"

namespace evermoe {

struct ScheduleResult {
  uint64_t seed = 0;
  bool passed = false;
  std::string problem;  // one line; empty if passed
  SimulatedOutcome outcome;
  std::vector<std::string> faults;
  std::string transcript() const;  // for people
};

// Rare paths that some of any 500 seeds take; what random schedules are for. (Others are rarer: two
// stages that recover apart come once in 500 seeds; the tests of single faults have them every
// time.)
const std::vector<std::string>& rare_paths();

// Runs the schedule and the undisturbed job of the same shape, in which the same roles rest from
// the same states on, and checks: the same digest, or a restart or refusal that the loss of all
// copies justifies; every sample exactly once; the memory limits kept; the end within a minute of
// simulated time; no standstill where processes are killed and nothing else fails; no more than one
// process of a role acts in a view, and all by one plan; the rules of hosts kept (control_plane.h);
// queues of the control plane within a limit; after one failure only the failed stage runs steps
// again, at most 2 W.
ScheduleResult run_schedule(uint64_t seed, const ScheduleOptions& options);

}  // namespace evermoe
