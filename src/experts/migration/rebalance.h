// Whether to move experts now because their loads have changed (Lazarus 4.1 rebalances every 200
// steps, whatever there is to gain).
//
// A step waits for the busiest node. Its *slowdown* is that node's load divided by the mean. Moving
// experts saves the difference between today's slowdown and the new plan's at every step, and costs
// the time of the migration once. Two thresholds keep a load that swings around one of them from
// moving experts to and fro.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "experts/placement/replica_placement.h"

namespace evermoe {

// The busiest node's load divided by the mean load of a node, if each replica of an expert gets the
// same part of its load: at least 1. `shares` is by expert; an expert with load and no replica is a
// bug. 1 if there is no load.
double expert_slowdown(const ExpertsOfNodes& experts_of, std::span<const double> shares);

struct RebalanceOptions {
  // Today's slowdown divided by the new plan's. From gain_start on an evaluation counts for moving,
  // below gain_stop the count starts anew, between them it stays.
  double gain_start = 1.10;
  double gain_stop = 1.05;
  int evaluations = 2;        // so many must have counted
  int64_t pause_steps = 100;  // no move sooner than this after the last one
  // The migration must have paid for itself after so many steps: about how long a plan lasts.
  int64_t payback_steps = 500;
};

// What would change. Slowdowns are means over the layers, seconds those of the whole job.
struct RebalanceOutlook {
  double slowdown_now = 1;
  double slowdown_after = 1;
  double balanced_seconds = 0;   // of a step's expert work at slowdown 1
  double migration_seconds = 0;  // for which training would wait
  // On so many distinct nodes is the least replicated expert, and on so many it shall be and could
  // be after a move.
  int distinct_now = 1;
  int distinct_promised = 1;
};

struct RebalanceState {
  Step moved;     // when experts were last placed
  int count = 0;  // evaluations that counted for moving
};

struct RebalanceDecision {
  bool move = false;
  RebalanceState state;  // to pass next time
  std::string reason;    // one line
};

// Pure. Moves at once, whatever the thresholds and the pause, where an expert is on fewer nodes
// than promised.
RebalanceDecision decide_rebalance(Step now, const RebalanceState& state,
                                   const RebalanceOutlook& outlook,
                                   const RebalanceOptions& options = {});

}  // namespace evermoe
