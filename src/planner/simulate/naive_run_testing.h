// The dumb oracle of run_simulation.h: every step, every stall, every snapshot, every expert, one
// by one.
//
// It keeps what a real run would keep (lists of saves, snapshots that have arrived, the step at
// which each expert was saved) and looks it up after a failure, where the simulation computes.
#pragma once

#include "planner/simulate/run_simulation.h"

namespace evermoe {

// REQUIRES: limits.wall_seconds is finite; limits.steps is not used.
SimulatedRun naive_run(const TrainedJob& job, const RunStrategy& strategy,
                       AvailabilitySource& source, const RunLimits& limits);

}  // namespace evermoe
