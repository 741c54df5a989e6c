#include "control/launch/control_child.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::StatusOr<std::unique_ptr<ControlChild>> ControlChild::start(
    const ControlChildOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerLog> log, WorkerLog::open(options.log_path));
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  SpawnOptions spawning;
  spawning.program = options.program;
  spawning.arguments = options.arguments;
  spawning.environment = options.environment;
  spawning.stdin_fd = nothing;
  spawning.stdout_fd = spawning.stderr_fd = log->fd();
  if (options.kept_fd >= 0) spawning.inherited_fds = {options.kept_fd};
  spawning.cpu_group = options.cpu_group;
  spawning.parent_death_signal = SIGKILL;
  spawning.own_group = true;
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = spawn(spawning);
  if (nothing >= 0) ::close(nothing);
  if (!process.ok()) return process.status();
  return std::unique_ptr<ControlChild>(new ControlChild(*std::move(process), std::move(log)));
}

ControlChild::~ControlChild() { kill_group(); }

// Also after its end: others of its group may live.
void ControlChild::kill_group() {
  (void)process_->kill_group(SIGKILL);
  if (!process_->try_wait()) (void)process_->kill(SIGKILL);
}

std::string ControlChild::how_it_ended() {
  const std::string how = to_string(process_->try_wait().value_or(ExitStatus{}));
  const std::vector<std::string> words = log_->last_lines(1);
  const bool killed = process_->try_wait().value_or(ExitStatus{}).signal == SIGKILL;
  return killed || words.empty() ? how : absl::StrCat(how, ": ", words[0]);
}

}  // namespace evermoe
