#include "cluster/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// Reads before others get their turn: more than a full pipe.
constexpr int kReadsMax = 4;

struct OwnedFd {
  explicit OwnedFd(int f) : fd(f) {}
  ~OwnedFd() { ::close(fd); }
  const int fd;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerProcessOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerLog> log, WorkerLog::open(options.log_path));
  // A background process that reads the terminal would be stopped.
  const OwnedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return NoCapacity(absl::StrCat("pipe: ", std::strerror(errno)));
  ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  SpawnOptions spawning;
  spawning.program = options.program;
  spawning.arguments = options.arguments;
  spawning.arguments.insert(spawning.arguments.end(), {"--report-fd", absl::StrCat(pipe[1])});
  spawning.environment = options.environment;
  spawning.stdin_fd = nothing.fd;
  spawning.stdout_fd = spawning.stderr_fd = log->fd();
  spawning.inherited_fds = {pipe[1]};
  if (options.kept_fd >= 0) spawning.inherited_fds.push_back(options.kept_fd);
  spawning.parent_death_signal = SIGKILL;
  spawning.own_group = options.own_group;
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = spawn(spawning);
  ::close(pipe[1]);
  if (!child.ok()) {
    ::close(pipe[0]);
    return child.status();
  }
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(*std::move(child), std::move(log), pipe[0], options.rank));
}

WorkerProcess::~WorkerProcess() {
  if (!try_wait()) kill();
  stop_reading();
}

absl::StatusOr<std::vector<WorkerReport>> WorkerProcess::take_reports() {
  std::vector<WorkerReport> reports;
  std::string chunk;
  for (int reads = 0; reads < kReadsMax && report_fd_ >= 0; ++reads) {
    chunk.resize(kReadBytes);
    const ssize_t got = ::read(report_fd_, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      stop_reading();
      break;
    }
    lines_.append(chunk.substr(0, static_cast<size_t>(got)));
    while (true) {
      auto report = lines_.next();
      if (report.ok() && report->has_value() && (**report).rank != rank_) {
        report = Corrupt(absl::StrCat("a report of rank ", (**report).rank.value));
      }
      if (!report.ok()) {
        stop_reading();
        return report.status();
      }
      if (!report->has_value()) break;
      reports.push_back(**std::move(report));
    }
  }
  return reports;
}

void WorkerProcess::stop_reading() {
  if (report_fd_ >= 0) ::close(report_fd_);
  report_fd_ = -1;
}

void WorkerProcess::signal(int number) { (void)child_->kill(number); }

void WorkerProcess::kill() {
  if (try_wait()) return;  // Its number may be somebody else's by now.
  (void)child_->kill_group(SIGKILL);
  // Where the group does not exist yet, between fork and exec, or is not its own.
  (void)child_->kill(SIGKILL);
}

}  // namespace evermoe
