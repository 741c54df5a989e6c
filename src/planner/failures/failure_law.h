// When nodes fail, and when they are there again: a law to draw from.
//
// Every node lives and is repaired independently of the others; a rack (a switch, a power feed) has
// a life of its own and takes all its nodes with it. Software failures are *crashes*: the processes
// die and the node could start them again at once. Maintenance is *announced*: the node can be left
// before it goes. Shapes of reality: 6.5 failures per 1000 node-days (RSC-1, Kokolis et al.
// 2025), 3.8 for Llama 3's 2048 nodes of 8 GPUs; 47 of its 466 interruptions were planned.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace evermoe {

struct FailureLaw {
  double node_mtbf_seconds = 0;  // mean life of a node, > 0
  // Of the Weibull law of lives: 1 is exponential (Poisson failures), below 1 most failures come
  // soon after a repair, above 1 nodes wear out.
  double shape = 1;
  // Nodes are as old at the start as they are on average in a long life; otherwise all new.
  bool aged = true;

  double repair_seconds = 0;        // mean; 0: every failure is a crash
  bool exponential_repair = false;  // otherwise every repair takes the mean
  double crash_share = 0;           // of the failures: need no repair
  double announced_share = 0;       // of those that are not crashes

  double rack_mtbf_seconds = 0;  // of each rack; 0: racks never fail
  double rack_repair_seconds = 0;

  // Of the whole job, for one node: n nodes fail together every whole_job_node_seconds / n. 0:
  // never.
  double whole_job_node_seconds = 0;
  friend bool operator==(const FailureLaw&, const FailureLaw&) = default;
};

// InvalidInput for a value outside its range, named as in a cluster's file. `racks`: how many there
// are.
absl::Status check(const FailureLaw& law, int racks);

// Failures per second of a job of so many nodes over so many racks, as long as all are up: of any
// kind, and of the whole job at once.
double failure_rate(const FailureLaw& law, int nodes, int racks);
double whole_job_failure_rate(const FailureLaw& law, int nodes);

// The same law with every rate multiplied by `factor` > 0.
FailureLaw scaled(FailureLaw law, double factor);

// The share of time that a node is up, racks included.
double availability(const FailureLaw& law, int racks);

}  // namespace evermoe
