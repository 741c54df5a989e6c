#include "env/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "env/clock.h"

extern char** environ;

namespace evermoe {
namespace {

// Everything the child needs between fork and exec, made before the fork: after it, in a program
// with threads, not even malloc is allowed.
struct Launch {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
  const SpawnOptions* options = nullptr;
  pid_t parent = 0;
  int report_fd = -1;  // closed by a successful exec; else carries a Failure
};

enum class Stage : int { kGroup, kDescriptors, kFolder, kExec };
struct Failure {
  Stage stage;
  int error;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(additions.begin(), additions.end(),
                                      [&](const auto& addition) { return addition.first == name; });
    if (!replaced) result.push_back(text);
  }
  for (const auto& [name, value] : additions) result.push_back(absl::StrCat(name, "=", value));
  return result;
}

// The path that execvp() would take; the name itself where none fits, so that exec reports it.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::vector<std::string> folders =
      absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':');
  for (const std::string& folder : folders) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;
}

// Puts the redirected descriptors on 0, 1, 2. Goes over copies above 2, because a source may itself
// be one of the three.
bool redirect(const SpawnOptions& options) {
  const int sources[3] = {options.stdin_fd, options.stdout_fd, options.stderr_fd};
  int copies[3] = {-1, -1, -1};
  for (int i = 0; i < 3; ++i) {
    if (sources[i] < 0) continue;
    copies[i] = ::fcntl(sources[i], F_DUPFD_CLOEXEC, 3);
    if (copies[i] < 0) return false;
  }
  for (int i = 0; i < 3; ++i) {
    if (copies[i] >= 0 && ::dup2(copies[i], i) < 0) return false;
  }
  return true;
}

bool keep_only_inherited(const SpawnOptions& options) {
  if (::syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) != 0) return false;
  for (int fd : options.inherited_fds) {
    if (fd > 2 && ::fcntl(fd, F_SETFD, 0) != 0) return false;
  }
  return true;
}

bool enter(const std::string& cpu_group) {
  const int file = ::open(cpu_group.c_str(), O_WRONLY | O_CLOEXEC);
  const bool is_in = file >= 0 && ::write(file, "0", 1) == 1;
  return is_in && ::close(file) == 0;
}

// A program expects default handlers and no blocked signals, whatever its parent set.
void reset_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void report_and_exit(const Launch& launch, Stage stage) {
  const Failure failure{stage, errno};
  (void)!::write(launch.report_fd, &failure, sizeof(failure));
  ::_exit(127);
}

// System calls only: see Launch.
[[noreturn]] void become(const Launch& launch) {
  const SpawnOptions& options = *launch.options;
  if (options.own_group) ::setpgid(0, 0);
  if (options.parent_death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, options.parent_death_signal);
    if (::getppid() != launch.parent) ::_exit(127);  // It died before we asked to be told.
  }
  if (!options.cpu_group.empty() && !enter(options.cpu_group)) {
    report_and_exit(launch, Stage::kGroup);
  }
  if (!redirect(options) || !keep_only_inherited(options)) {
    report_and_exit(launch, Stage::kDescriptors);
  }
  if (!options.working_directory.empty() && ::chdir(options.working_directory.c_str()) != 0) {
    report_and_exit(launch, Stage::kFolder);
  }
  reset_signals();
  ::execve(launch.program.c_str(), launch.argv.data(), launch.envp.data());
  report_and_exit(launch, Stage::kExec);
}

ExitStatus from_wait(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {info.si_status, 0};
  return {0, info.si_status};
}

class RealChildProcess : public ChildProcess {
 public:
  RealChildProcess(pid_t pid, int exit_fd, bool own_group)
      : pid_(pid), exit_fd_(exit_fd), own_group_(own_group) {}

  ~RealChildProcess() override {
    if (!ended_) {
      (void)kill(SIGKILL);
      collect(0);
    }
    ::close(exit_fd_);
  }

  pid_t pid() const override { return pid_; }
  int exit_fd() const override { return exit_fd_; }

  std::optional<ExitStatus> try_wait() override {
    if (!ended_) collect(WNOHANG);
    return ended_;
  }

  absl::StatusOr<ExitStatus> wait(absl::Duration timeout) override {
    const absl::Duration deadline = real_clock().now() + timeout;
    while (!try_wait()) {
      const absl::Duration left = deadline - real_clock().now();
      if (left <= absl::ZeroDuration()) {
        return Timeout(
            absl::StrCat("process ", pid_, " still runs after ", absl::FormatDuration(timeout)));
      }
      pollfd waiting{exit_fd_, POLLIN, 0};
      // Rounded up, and in slices so that an endless timeout fits poll's int.
      ::poll(&waiting, 1,
             static_cast<int>(absl::ToInt64Milliseconds(std::min(left, absl::Minutes(10)) +
                                                        absl::Milliseconds(1))));
    }
    return *ended_;
  }

  absl::Status kill(int signal) override {
    // Over the descriptor: the number could belong to somebody else by now.
    if (::syscall(SYS_pidfd_send_signal, exit_fd_, signal, nullptr, 0) == 0)
      return absl::OkStatus();
    return signal_error();
  }

  absl::Status kill_group(int signal) override {
    if (!own_group_) return InvalidInput("the process does not lead a group");
    return ::kill(-pid_, signal) == 0 ? absl::OkStatus() : signal_error();
  }

 private:
  absl::Status signal_error() const {
    const std::string message =
        absl::StrCat("cannot signal process ", pid_, ": ", std::strerror(errno));
    return errno == ESRCH ? NotFound(message) : Internal(message);
  }

  void collect(int flags) {
    siginfo_t info = {};
    int result;
    do {
      result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | flags);
    } while (result != 0 && errno == EINTR);
    if (result == 0 && info.si_pid == pid_) ended_ = from_wait(info);
    // Somebody else collected it (a SIGCHLD handler, SIG_IGN): it is gone, how is not known.
    if (result != 0) ended_ = ExitStatus{255, 0};
  }

  const pid_t pid_;
  const int exit_fd_;
  const bool own_group_;
  std::optional<ExitStatus> ended_;
};

absl::Status launch_error(const SpawnOptions& options, const Failure& failure) {
  const std::string reason = std::strerror(failure.error);
  switch (failure.stage) {
    case Stage::kGroup:
      return Unsupported(absl::StrCat(options.cpu_group, ": cannot enter: ", reason));
    case Stage::kDescriptors:
      return Internal(absl::StrCat(options.program, ": cannot pass descriptors: ", reason));
    case Stage::kFolder:
      return InvalidInput(absl::StrCat(options.working_directory, ": cannot enter: ", reason));
    case Stage::kExec: break;
  }
  return NotFound(absl::StrCat(options.program, ": cannot execute: ", reason));
}

// Forks with every signal blocked, so that no handler of ours runs in the child.
pid_t fork_quietly(const Launch& launch) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) become(launch);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.signal == 0) return absl::StrCat("exit code ", status.code);
  return absl::StrCat("killed by signal ", status.signal, " (", ::strsignal(status.signal), ")");
}

absl::StatusOr<std::unique_ptr<ChildProcess>> spawn(const SpawnOptions& options) {
  Launch launch;
  launch.program = find_program(options.program);
  launch.arguments = options.arguments;
  launch.arguments.insert(launch.arguments.begin(), options.program);
  launch.environment = merged_environment(options.environment);
  launch.argv = pointers(launch.arguments);
  launch.envp = pointers(launch.environment);
  launch.options = &options;
  launch.parent = ::getpid();
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0)
    return NoCapacity("no descriptor is left to start a process");
  launch.report_fd = report[1];
  const pid_t pid = fork_quietly(launch);
  const int fork_error = errno;
  ::close(report[1]);
  if (pid < 0) {
    ::close(report[0]);
    return NoCapacity(absl::StrCat("cannot fork: ", std::strerror(fork_error)));
  }
  Failure failure;
  ssize_t got;
  do {
    got = ::read(report[0], &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  ::close(report[0]);
  const int exit_fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (got == sizeof(failure) || exit_fd < 0) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    if (exit_fd >= 0) ::close(exit_fd);
    if (got == sizeof(failure)) return launch_error(options, failure);
    return Unsupported(absl::StrCat("this kernel has no pidfd_open: ", std::strerror(error)));
  }
  return std::make_unique<RealChildProcess>(pid, exit_fd, options.own_group);
}

}  // namespace evermoe
