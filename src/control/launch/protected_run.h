// Runs a protected job on this machine: a controller and the agents of its (simulated) nodes as
// child processes, which start and look after the workers. What happens is decided by the
// controller; the run keeps the processes of the control plane alive, follows what the controller
// tells, and passes on the user's wish to stop.
//
// Of a job on several machines it is the host: the controller and its story; the agents are
// elsewhere (node_run.h) and live on when it ends. Whoever takes the next term of the folder takes
// the job over.
//
// A controller that ends or falls silent is replaced at once; nothing but decisions has to wait for
// it. A node whose agent ends stays lost, as a machine would; but when no node is left, it comes
// back.
//
// Logs of all processes are in OUT/logs; OUT/workers.json tells which process plays which role, and
// OUT/control.json which ones are "controller" and "agent.<node>".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/write/folder_term.h"
#include "control/agent/agent_core.h"
#include "control/controller/controller_server.h"
#include "control/hosting/host_orders.h"
#include "control/launch/run_outcome.h"
#include "env/clock.h"
#include "env/files.h"
#include "faults/fault.h"

namespace evermoe {

struct ProtectedRunOptions {
  std::string program =
      "/proc/self/exe";  // its commands `controller-process` and `agent-process` run the job
  std::string worker;    // the workers' program
  std::vector<std::string>
      worker_arguments;  // the first ones of every worker: "train", "--config", ...
  std::vector<std::pair<std::string, std::string>> environment;  // of all processes
  std::string out;                                               // an existing folder
  // Of this run in it. The run ends within kTermCheckEvery of losing it; to another host of the job
  // it leaves what lives, to another job nothing.
  FolderTerm term;
  int kept_fd = -1;  // held open by every process; -1: none
  // The job's stored configuration, which controller and agents read, and what it means for them
  // (control_options.h).
  std::string config;
  ControllerServerOptions controller;
  AgentCoreOptions agent;
  Step steps;  // the state that the job is to reach
  // Where the controller listens, for the agents of other machines: HOST:PORT. This run starts no
  // agent then. Empty: all nodes are simulated here.
  std::string address;
  std::string keys;              // the folder of the job's keys; needed with an address
  double node_cpus = 0;          // what a simulated node gets of this machine's; 0: no limit
  HostOrders* orders = nullptr;  // null: none
  // Faults to rehearse, and the file with them that the workers read; the injected ones are kept
  // beside it.
  FaultScript faults;
  std::string faults_path;
  // Controllers and agents, each, that may end without a new step in between.
  int control_losses_max = 20;
  // How long a controller may take to come up.
  absl::Duration control_start_max = absl::Minutes(2);
};

inline constexpr absl::Duration kTermCheckEvery = absl::Seconds(1);

// Returns when no process that it started runs any more. Without orders it takes SIGINT, SIGTERM
// and SIGHUP for itself meanwhile (the first one drains the job, one that comes more than
// StopRequest::kOneWish later ends it at once). An error only if it cannot begin.
absl::StatusOr<RunOutcome> run_protected(Files& files, Clock& clock,
                                         const ProtectedRunOptions& options, RunObserver& observer);

}  // namespace evermoe
