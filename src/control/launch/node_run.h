// One node of a job whose nodes are started by a cluster's launcher, each on its machine.
//
// Node 0 is a run (job_run.h) whose controller listens where the others reach it, with an agent of
// its own; every other node is an agent. Losing a worker, or a node other than 0, costs a few steps
// of a stage.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "control/launch/job_run.h"
#include "control/wire/control_messages.h"

namespace evermoe {

struct NodeOptions {
  int node = 1;
  std::string controller;  // HOST:PORT
  JobConfig config;        // as node 0 has it
  std::string out;         // the job's folder, which all nodes see
  std::string worker;      // the workers' program
  std::string build;       // as JobRunOptions::build
};

// Deals the nodes that a launcher has started: `spares` of them, and those for which there is no
// role, are spares. Between machines messages go over UCX: that is what "auto" means then.
// InvalidInput if no node is left to begin with.
absl::Status deal_nodes(int nodes, int spares, JobConfig& config);

// A node other than 0: returns when the job has ended, and says how. Takes SIGINT, SIGTERM and
// SIGHUP for itself meanwhile: the first one drains the job, the second one ends the node. Timeout
// if no controller was there for too long.
absl::StatusOr<EndJob> run_node(Clock& clock, const NodeOptions& options);

// For a node 0 that has nothing to run: tells the other nodes, at the address where they look for
// the controller. Returns when all have heard it, or after a while.
void tell_nodes(const std::string& address, int others, const EndJob& end);

}  // namespace evermoe
