// A controller or an agent that the run has started: its process and its log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "control/agent/processes/worker_log.h"
#include "env/process.h"

namespace evermoe {

struct ControlChildOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string log_path;
  int kept_fd = -1;       // stays open in it and may be handed on; -1: none
  std::string cpu_group;  // SpawnOptions::cpu_group
};

// It leads a process group of its own, and dies with the thread that started it. Destruction kills
// the whole group.
class ControlChild {
 public:
  static absl::StatusOr<std::unique_ptr<ControlChild>> start(const ControlChildOptions& options);
  ~ControlChild();
  ControlChild(const ControlChild&) = delete;
  ControlChild& operator=(const ControlChild&) = delete;

  pid_t pid() const { return process_->pid(); }
  int exit_fd() const { return process_->exit_fd(); }
  std::optional<ExitStatus> try_wait() { return process_->try_wait(); }
  void kill_group();
  // "killed by signal 9 (Killed)", "exit code 1: address in use". REQUIRES: it has ended.
  std::string how_it_ended();

 private:
  ControlChild(std::unique_ptr<ChildProcess> process, std::unique_ptr<WorkerLog> log)
      : process_(std::move(process)), log_(std::move(log)) {}
  const std::unique_ptr<ChildProcess> process_;
  const std::unique_ptr<WorkerLog> log_;
};

}  // namespace evermoe
