#include "control/agent/processes/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"

namespace evermoe {
namespace {

struct OwnedFd {
  explicit OwnedFd(int f) : fd(f) {}
  ~OwnedFd() { ::close(fd); }
  const int fd;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::start(
    const WorkerProcessOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerLog> log, WorkerLog::open(options.log_path));
  // A background process that reads the terminal would be stopped.
  const OwnedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnOptions spawning;
  spawning.program = options.program;
  spawning.arguments = options.arguments;
  spawning.stdin_fd = nothing.fd;
  spawning.stdout_fd = spawning.stderr_fd = log->fd();
  if (options.kept_fd >= 0) spawning.inherited_fds.push_back(options.kept_fd);
  spawning.parent_death_signal = SIGKILL;
  ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child, spawn(spawning));
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(std::move(child), std::move(log), options.rank));
}

WorkerProcess::~WorkerProcess() {
  if (!try_wait()) kill();
}

void WorkerProcess::take_role(Rank rank, const std::string& log_path) {
  rank_ = rank;
  if (auto log = WorkerLog::open(log_path); log.ok()) log_ = *std::move(log);
}

void WorkerProcess::signal(int number) { (void)child_->kill(number); }

void WorkerProcess::kill() {
  if (try_wait()) return;  // Its number may be somebody else's by now.
  (void)child_->kill(SIGKILL);
}

}  // namespace evermoe
