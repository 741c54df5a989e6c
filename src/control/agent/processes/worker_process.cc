#include "control/agent/processes/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"

namespace evermoe {
namespace {

struct OwnedFd {
  explicit OwnedFd(int f) : fd(f) {}
  ~OwnedFd() { ::close(fd); }
  const int fd;
};

// A process that takes a role fills much memory while others wait for it, and the kernel clears it
// page by page, unless pages are large. Nor does a thread reuse what another one has freed (a
// sandbox, for what its service thread receives next) unless both allocate from one arena. glibc
// reads this before main(); whoever has settings of their own keeps them.
std::vector<std::pair<std::string, std::string>> memory_settings() {
  constexpr char kTunables[] = "GLIBC_TUNABLES";
  if (std::getenv(kTunables) != nullptr) return {};
  return {{kTunables, "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1"}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::start(
    const WorkerProcessOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerLog> log, WorkerLog::open(options.log_path));
  // A background process that reads the terminal would be stopped.
  const OwnedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnOptions spawning;
  spawning.program = options.program;
  spawning.arguments = options.arguments;
  spawning.environment = memory_settings();
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
