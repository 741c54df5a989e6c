// One started worker: its process, what it reports and what it logs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "cluster/report_lines.h"
#include "cluster/worker_log.h"
#include "env/process.h"

namespace evermoe {

struct WorkerProcessOptions {
  std::string program;
  // "--report-fd FD" is added to them.
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string log_path;
  Rank rank;
  int kept_fd = -1;  // held open by the worker as long as it lives; -1: none
  // In a process group of its own the terminal's Ctrl-C does not reach it.
  bool own_group = true;
};

// One thread, the one that started it: the worker dies when that thread ends. Destruction kills it.
class WorkerProcess {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> start(const WorkerProcessOptions& options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return child_->pid(); }
  Rank rank() const { return rank_; }
  // Readable when the process has ended, and when there are reports; report_fd() is -1 after its end.
  int exit_fd() const { return child_->exit_fd(); }
  int report_fd() const { return report_fd_; }

  // The reports that have arrived. Never blocks. Corrupt once if they cannot be read, or are not of
  // this rank; nothing more is read then.
  absl::StatusOr<std::vector<WorkerReport>> take_reports();
  // Never blocks. Reports that came before the end are still to be taken.
  std::optional<ExitStatus> try_wait() { return child_->try_wait(); }

  // Nothing to do for a process that has ended.
  void signal(int number);
  void kill();  // with a group of its own: it and all that it started

  std::vector<std::string> last_lines(size_t lines_max) const { return log_->last_lines(lines_max); }
  const std::string& log_path() const { return log_->path(); }

 private:
  WorkerProcess(std::unique_ptr<ChildProcess> child, std::unique_ptr<WorkerLog> log, int report_fd, Rank rank)
      : child_(std::move(child)), log_(std::move(log)), report_fd_(report_fd), rank_(rank) {}
  void stop_reading();

  const std::unique_ptr<ChildProcess> child_;
  const std::unique_ptr<WorkerLog> log_;
  int report_fd_;
  const Rank rank_;
  ReportLines lines_;
};

}  // namespace evermoe
