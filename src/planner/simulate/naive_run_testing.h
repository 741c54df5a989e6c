// The dumb oracle of run_simulation.h: every step, every stall, every node, one by one.
//
// What training keeps and goes back to is naive_training_testing.h's; here are nodes, copies and
// recoveries.
#pragma once

#include "planner/simulate/run_simulation.h"

namespace evermoe {

// REQUIRES: limits.wall_seconds is finite; limits.steps is not used.
SimulatedRun naive_run(const TrainedJob& job, const RunStrategy& strategy,
                       AvailabilitySource& source, const RunLimits& limits);

}  // namespace evermoe
