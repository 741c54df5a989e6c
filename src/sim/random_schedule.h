// Random jobs and faults from a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/simulated_fault.h"
#include "sim/simulated_shape.h"

namespace evermoe {

struct ScheduleOptions {
  StrategyKind strategy = StrategyKind::kSparse;
  std::vector<int> lanes;  // of each stage; empty: drawn from the seed
  int nodes = 0;           // 0: drawn
  int faults_max = 3;  // faults of a run: 1 to this many (kills that go with another fault are not
                       // counted)
  bool with_node_kills = true;
  bool with_controller_kills = true;
  bool with_doomed_roles = true;
  bool with_stops = true;
  bool with_cuts = true;
  bool with_corruption = true;
  bool with_store = true;  // jobs of which any node may host, and faults of their store
  bool with_disk_faults = true;
  bool with_late_nodes = true;
  bool with_control_faults =
      true;  // agents and controllers that stand still, lines between them that fail
};

struct RandomSchedule {
  SimulatedShape shape;
  std::vector<SimulatedFault> faults;
};

// A function of its arguments alone.
RandomSchedule random_schedule(uint64_t seed, const ScheduleOptions& options);

}  // namespace evermoe
