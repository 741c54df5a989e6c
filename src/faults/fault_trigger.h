// When a fault is injected into one worker: a pure function of the points it passes.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/ids.h"
#include "faults/fault.h"

namespace evermoe {

// For one process, from when it gets its role. One thread at a time: points are passed in several
// threads, so the caller holds a lock.
class FaultTrigger {
 public:
  // `injected`: indices of the faults that have fired before in the life of the job.
  // `is_newcomer`: the process has come to a job that had begun.
  FaultTrigger(const FaultScript& script, FaultRole role, int node, const std::set<int>& injected,
               bool is_newcomer = false);

  // The faults that fire now, in the script's order, each once. `step_under_way` as
  // faults/fault_points.h defines it; `recovery_number` counts the recoveries of the job from 1 and
  // is 0 while none is under way. Earlier passings are counted in this process alone, over all
  // attempts at the step.
  std::vector<Fault> on_point(const char* point, Step step_under_way, int recovery_number);

  // Nothing can fire any more: fault points may be disarmed.
  bool is_spent() const { return pending_.empty(); }

 private:
  struct Pending {
    Fault fault;
    int64_t passed = 0;
  };
  std::vector<Pending> pending_;  // this worker's, by index
};

}  // namespace evermoe
