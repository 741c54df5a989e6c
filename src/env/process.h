// Process: starting programs and learning how they ended.
//
// A child is started by fork and exec (nothing but system calls runs between the two, so it is safe
// in a program with threads) and reports its end through a descriptor that poll() understands.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace evermoe {

struct SpawnOptions {
  std::string program = {};                 // a path, or a name that is looked for in PATH
  std::vector<std::string> arguments = {};  // without the program's own name
  // Added to this process's environment, replacing variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string working_directory = {};  // empty: this process's
  // CpuGroup::entry() of a group that the child belongs to from its first instruction on; empty:
  // this process's.
  std::string cpu_group = {};

  // Descriptors of this process that become the child's 0, 1 and 2; -1: this process's own.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  // Further descriptors that the child gets under the same numbers. All others are closed in it.
  std::vector<int> inherited_fds = {};

  // The child gets this signal when the *thread* that called spawn() ends; 0 for none. Without it a
  // killed supervisor leaves its workers behind.
  int parent_death_signal = 0;
  // The child leads a process group of its own: it does not get the terminal's Ctrl-C, and
  // kill_group() reaches its own children too.
  bool own_group = false;
};

// How a process ended.
struct ExitStatus {
  int code = 0;    // exit code; meaningless if killed by a signal
  int signal = 0;  // 0: it exited by itself
  bool ok() const { return signal == 0 && code == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// "exit code 3", "killed by signal 9 (Killed)".
std::string to_string(const ExitStatus& status);

// A started process. One thread at a time; kill() any thread until wait() has returned.
// Destroying it while it runs kills it with SIGKILL and collects it.
class ChildProcess {
 public:
  virtual ~ChildProcess() = default;

  virtual pid_t pid() const = 0;
  // Becomes readable for poll() when the process has ended. Owned by this object.
  virtual int exit_fd() const = 0;

  // How it ended, nullopt while it runs. Never blocks.
  virtual std::optional<ExitStatus> try_wait() = 0;
  // Waits for the end, at most `timeout`: Timeout if it still runs then. May be called again.
  virtual absl::StatusOr<ExitStatus> wait(absl::Duration timeout) = 0;
  // NotFound if it has been collected already.
  virtual absl::Status kill(int signal) = 0;
  // The same for its whole group. REQUIRES: own_group.
  virtual absl::Status kill_group(int signal) = 0;
};

// NotFound if the program cannot be executed, InvalidInput for a bad working directory, NoCapacity
// when the system has no room for another process.
absl::StatusOr<std::unique_ptr<ChildProcess>> spawn(const SpawnOptions& options);

}  // namespace evermoe
