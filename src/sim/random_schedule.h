// Random jobs and faults from a seed.
#pragma once

#include <cstdint>
#include <string>
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
  bool with_standbys = true;    // in some jobs warm processes take the roles of lost ones
  bool with_moves = true;       // in some jobs roles move while they train
  bool with_leavers = true;     // in some machines are taken away, after a notice or without one
  bool with_drains = true;      // in some an operator ends it before its last step
  bool with_stragglers = true;  // in some a role computes slower than others
  bool with_slow_links = true;  // in some the line between two machines becomes slow
  // Every third seed a job whose lanes rest and train as nodes go and come.
  bool with_elastic_jobs = true;
  bool with_control_faults =
      true;  // agents and controllers that stand still, lines between them that fail
  // Of these faults:
  bool with_line_breaks = true;   // lines that break though both ends live
  bool with_host_changes = true;  // another host beside the one that lives
  bool with_agent_cuts = true;    // agents that reach the controller, but not each other
  bool with_worker_cuts = true;   // workers that do not reach each other for a while
};

// Of faults that can be done to real machines from outside, or by a fault script of many machines
// (tests/machines/schedules.py).
ScheduleOptions playable_schedules();

struct RandomSchedule {
  SimulatedShape shape;
  std::vector<SimulatedFault> faults;
};

// A function of its arguments alone.
RandomSchedule random_schedule(uint64_t seed, const ScheduleOptions& options);

// How often a job passes a point, roughly, all ranks together: at most that is drawn for a fault.
int64_t usual_passings(const std::string& point);

}  // namespace evermoe
