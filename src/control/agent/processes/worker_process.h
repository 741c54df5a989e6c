// One started worker: its process and its log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "control/agent/processes/worker_log.h"
#include "env/process.h"

namespace evermoe {

struct WorkerProcessOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::string log_path;
  Rank rank;
  int kept_fd = -1;  // held open by the worker as long as it lives; -1: none
};

// In the process group of who starts it. One thread, the one that started it: the worker dies when
// that thread ends. Destruction kills it.
class WorkerProcess {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> start(const WorkerProcessOptions& options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return child_->pid(); }
  Rank rank() const { return rank_; }
  // Readable when the process has ended.
  int exit_fd() const { return child_->exit_fd(); }
  // Never blocks.
  std::optional<ExitStatus> try_wait() { return child_->try_wait(); }

  // It plays this role from now on, and writes there: it has to be told so. Where that file cannot
  // be opened it goes on writing where it does.
  void take_role(Rank rank, const std::string& log_path);

  // Nothing to do for a process that has ended.
  void signal(int number);
  void kill();

  std::vector<std::string> last_lines(size_t lines_max) const {
    return log_->last_lines(lines_max);
  }
  const std::string& log_path() const { return log_->path(); }

 private:
  WorkerProcess(std::unique_ptr<ChildProcess> child, std::unique_ptr<WorkerLog> log, Rank rank)
      : child_(std::move(child)), log_(std::move(log)), rank_(rank) {}

  const std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<WorkerLog> log_;
  Rank rank_;
};

}  // namespace evermoe
