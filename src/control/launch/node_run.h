// One node of a job whose nodes are started by a cluster's launcher, each on its machine.
//
// Every node is an agent, with the workers of its machine. Besides, one process hosts the job: it
// has the controller and the story (job_run.h). Hosting is no part of being a node: when a host
// ends or another one takes the job over, the node that it was on goes on as it was.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "control/health/node_health.h"
#include "control/keys/job_keys.h"
#include "control/launch/job_run.h"
#include "control/wire/control_messages.h"

namespace evermoe {

// Hosts the job until it ends or is taken over, on a thread of its own.
using HostJob = std::function<absl::StatusOr<RunSummary>(HostOrders& orders)>;

struct NodeOptions {
  int node = 1;
  std::string controller;         // HOST:PORT of the host's
  std::string keys;               // the folder of the job's keys
  JobConfig config;               // as node 0 has it
  std::string out;                // the job's folder, which all nodes see
  std::string worker;             // the workers' program
  std::string build;              // as JobRunOptions::build
  std::string arithmetic;         // AgentCoreOptions::arithmetic
  HealthLimits health;            // for a machine that is to play roles
  int nodes = 1;                  // in all
  bool rehearses_faults = false;  // those that the host has been given
  // Of a node that may host the job (node_hosting.h), with its controller at `listen`; null: it may
  // not.
  HostJob host;
  std::string listen;
  // Where it is decided who hosts, and told where (control.store); then `controller` is not looked
  // at. Empty: the first node hosts, or a process apart.
  std::string store;
};

// Deals the nodes that a launcher has started: `spares` of them, and those for which there is no
// role, are spares. InvalidInput if no node is left to begin with, or they are fewer than racks.
absl::Status deal_nodes(int nodes, int spares, JobConfig& config);

struct NodeEnd {
  int quit_signal = 0;  // that came twice and ended the node at once; else 0
  // What the controller said, or the job's folder to a node that no controller reached.
  EndJob job;
  // Of the host of this process, if it hosted the job to its end: an error if it could not begin.
  std::optional<absl::StatusOr<RunSummary>> hosted;
};

// Returns when the job has ended, or this node has left it, and says how. Takes signals for itself
// meanwhile: the first SIGTERM or SIGUSR1 says that the machine will be taken away soon
// (AgentOptions::signals), the first SIGINT or SIGHUP drains the job, the second signal ends the
// node. Timeout if no controller was there for too long.
absl::StatusOr<NodeEnd> run_node(Clock& clock, const NodeOptions& options);

// Of a host whose controller could not tell the nodes how the job ended, because it never began:
// does so, at the address where they look for it, with the keys in that folder. Returns when all
// have heard it, or after a while.
void tell_what_nobody_heard(const std::string& address, const std::string& keys, int nodes,
                            const absl::StatusOr<RunSummary>& hosted);

}  // namespace evermoe
