// One run of a job on this machine, from its configuration to its summary.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "control/hosting/host_orders.h"
#include "control/launch/run_outcome.h"
#include "control/launch/run_summary.h"
#include "env/clock.h"
#include "env/files.h"
#include "faults/fault.h"

namespace evermoe {

struct JobRunOptions {
  JobConfig config;  // valid
  std::string out;
  FaultScript faults;                      // to rehearse
  std::string program = "/proc/self/exe";  // see ProtectedRunOptions
  std::string worker;                      // the workers' program
  std::string build;  // which refuses to run unless it is of this build; empty: it is not asked
  // HOST:PORT of the controller if the nodes are elsewhere (node_run.h); empty: all are here.
  std::string address;
  std::string keys;              // the folder of the job's keys; needed with an address
  HostOrders* orders = nullptr;  // ProtectedRunOptions::orders
};

// What every process of a job has in its environment.
std::vector<std::pair<std::string, std::string>> process_environment(const JobConfig& config);
// The first arguments of a worker of the job in the folder `out`; `build` as above.
std::vector<std::string> worker_arguments(const std::string& out, const std::string& build);

// Starts or resumes the job in `out` and returns when it has ended; starts no workers if the newest
// checkpoint has all steps already. InvalidInput as JobFolder::prepare(). However the run ends,
// that is a summary.
absl::StatusOr<RunSummary> run_job(Files& files, Clock& clock, const JobRunOptions& options,
                                   RunObserver& observer);

}  // namespace evermoe
