#include "cli/commands/machine_room.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "cli/reports/model_report.h"
#include "control/controller/role_placement.h"
#include "control/health/available_memory.h"

namespace evermoe {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr double kStartSecondsMax = 60;

// What one process needs at least: memory that it shares with no other, threads, and seconds of a
// core to start. Measured with bench/control/start.py, and in jobs of configs/tiny.toml.
struct Need {
  int64_t bytes;
  int64_t threads;
  double start_seconds;
};
constexpr Need kControlProcess{int64_t{2} << 20, 11, 0.05};
constexpr Need kWorker{int64_t{80} << 20, 12, 0.5};  // without the model
// What a worker maps at least, libraries and stacks above all: with less its threads do not start.
// Jobs of configs/tiny.toml run with 1.6 GB and not with 1.2.
constexpr int64_t kWorkerAddressBytes = int64_t{1400} << 20;

// Weights, gradients and optimizer of a rank of this stage, as far as host memory has them.
int64_t state_in_host_memory(const StageMemory& stage, const JobConfig& config) {
  return config.train.device == DeviceChoice::kCuda ? 0 : stage.rank_max.sum();
}

// Those of the largest rank.
int64_t largest_state_bytes(const JobConfig& config) {
  int64_t bytes = 0;
  for (const StageMemory& stage : report_model(config).stages)
    bytes = std::max(bytes, state_in_host_memory(stage, config));
  return bytes;
}

// Those of the smallest stage's ranks.
int64_t smallest_state_bytes(const JobConfig& config) {
  int64_t bytes = kUnlimited;
  for (const StageMemory& stage : report_model(config).stages)
    bytes = std::min(bytes, state_in_host_memory(stage, config));
  return bytes;
}

// Those of all ranks.
int64_t state_bytes(const JobConfig& config) {
  int64_t bytes = 0;
  for (const StageMemory& stage : report_model(config).stages)
    bytes += stage.lanes * state_in_host_memory(stage, config);
  return bytes;
}

std::string gigabytes(int64_t bytes) {
  return absl::StrFormat("%.1f GB", static_cast<double>(bytes) / 1e9);
}

// The first number of a file; kUnlimited for "max", or if there is none.
int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : kUnlimited;
}

// How many tasks more this process's control group (version 2) allows.
int64_t tasks_left_in_group() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, 3, "0::") != 0) continue;
    const std::string folder = absl::StrCat("/sys/fs/cgroup", line.substr(3), "/pids");
    const int64_t limit = number_in(folder + ".max"), used = number_in(folder + ".current");
    return limit == kUnlimited || used == kUnlimited ? kUnlimited
                                                     : std::max<int64_t>(0, limit - used);
  }
  return kUnlimited;
}

int64_t address_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kUnlimited));
}

// The system's superuser is not bound by it.
int64_t thread_limit_of_user() {
  rlimit limit{};
  if (::geteuid() == 0 || ::getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kUnlimited;
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace

MachineRoom machine_room() {
  MachineRoom room;
  room.memory_bytes = available_memory().value_or(kUnlimited);
  room.address_bytes = address_limit();
  room.threads =
      std::min({number_in("/proc/sys/kernel/pid_max"), number_in("/proc/sys/kernel/threads-max"),
                tasks_left_in_group(), thread_limit_of_user()});
  room.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return room;
}

int64_t least_memory_of_node(const JobConfig& config) {
  const int roles = roles_at_start(static_cast<int>(config.parallel.world_size()),
                                   static_cast<int>(config.run.nodes));
  return kControlProcess.bytes + roles * kWorker.bytes + roles * smallest_state_bytes(config);
}

absl::Status check_room(const JobConfig& config, const MachineRoom& room) {
  const int64_t agents = config.run.nodes + config.run.spares, control = agents + 1;
  const int64_t workers = config.parallel.world_size(), state = state_bytes(config);
  const std::string who =
      absl::StrCat("too large for this machine: run.nodes + run.spares = ", agents,
                   agents == 1 ? " agent" : " agents", ", 1 controller and ", workers,
                   workers == 1 ? " worker" : " workers");
  const int64_t bytes = control * kControlProcess.bytes + workers * kWorker.bytes + state;
  if (bytes > room.memory_bytes) {
    return InvalidInput(
        absl::StrCat(who, " need at least ", control, " x ", kControlProcess.bytes >> 20, " MiB + ",
                     workers, " x ", kWorker.bytes >> 20, " MiB + ", gigabytes(state),
                     " for the model = ", gigabytes(bytes), ", allowed: the ",
                     gigabytes(room.memory_bytes), " of memory that are available"));
  }
  const int64_t mapped = kWorkerAddressBytes + largest_state_bytes(config);
  if (mapped > room.address_bytes) {
    return InvalidInput(
        absl::StrCat("too large for a process here: a worker maps at least ", gigabytes(mapped),
                     ", allowed: the ", gigabytes(room.address_bytes),
                     " of address space that the shell's limit leaves (ulimit -v)"));
  }
  const int64_t threads = control * kControlProcess.threads + workers * kWorker.threads;
  if (threads > room.threads) {
    return InvalidInput(absl::StrCat(who, " need ", control, " x ", kControlProcess.threads, " + ",
                                     workers, " x ", kWorker.threads, " = ", threads,
                                     " threads, allowed: the ", room.threads,
                                     " that the system lets run"));
  }
  const double seconds = (static_cast<double>(control) * kControlProcess.start_seconds +
                          static_cast<double>(workers) * kWorker.start_seconds) /
                         room.cores;
  if (seconds > kStartSecondsMax) {
    return InvalidInput(absl::StrFormat(
        "%s take (%d x %.2f s + %d x %.1f s) / %d cores = %.0f s to start, allowed: at most %.0f s",
        who, control, kControlProcess.start_seconds, workers, kWorker.start_seconds, room.cores,
        seconds, kStartSecondsMax));
  }
  return absl::OkStatus();
}

}  // namespace evermoe
