// Runs the workers of a job on this machine until it is done: starts a process per role, listens to
// them, and does what cluster/supervisor_core.h decides.
//
// Every attempt has a rendezvous server of its own in this process. Standard output and error of a
// worker go to OUT/logs/worker-<stage>.<lane>.log. OUT/workers.json is kept up to date.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/failure_record.h"
#include "cluster/supervisor_core.h"
#include "cluster/worker_report.h"
#include "env/clock.h"
#include "env/files.h"

namespace evermoe {

// Is told what happens, on the thread of supervise(), which does not go on before it returns.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_say(const std::string& line) = 0;
  virtual void on_report(const WorkerReport& report) = 0;  // every one, kAlive too
  // The last lines that a failed worker wrote.
  virtual void on_log(const std::string& role, const std::string& path, const std::vector<std::string>& lines) = 0;
};

struct SupervisorOptions {
  std::string program = "/proc/self/exe";  // the running binary, even if it was replaced on disk
  // Before "--rank R --world-size N --rendezvous HOST:PORT --report-fd FD".
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string out;   // an existing folder
  int kept_fd = -1;  // as in WorkerProcessOptions
  SupervisorCoreOptions core;
};

struct RunOutcome {
  RunStatus status = RunStatus::kFailed;
  int exit_code = 1;
  std::string reason;
  Step steps;  // the newest committed one
  int restarts = 0;
  std::vector<FailureRecord> failures;
};

// Returns when no worker runs any more. Takes SIGINT, SIGTERM and SIGHUP of this process for itself
// meanwhile. An error only if it cannot begin; whatever happens to the workers is an outcome.
absl::StatusOr<RunOutcome> supervise(Files& files, Clock& clock, const SupervisorOptions& options,
                                     RunObserver& observer);

}  // namespace evermoe
