#include "cli/experiment/job_process.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "env/clock.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr absl::Duration kStopTime = absl::Seconds(30);

// VmHWM of a process in bytes; 0 if it is gone.
int64_t resident_peak(int64_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    int64_t kibibytes = 0;
    if (absl::ConsumePrefix(&text, "VmHWM:") && absl::ConsumeSuffix(&text, " kB") &&
        absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &kibibytes))
      return kibibytes * 1024;
  }
  return 0;
}

// A drained job has saved and ended all of its processes.
absl::Status stop(ChildProcess& child) {
  if (child.try_wait()) return absl::OkStatus();
  RETURN_IF_ERROR(child.kill(SIGTERM));
  if (child.wait(kStopTime).ok()) return absl::OkStatus();
  RETURN_IF_ERROR(child.kill_group(SIGKILL));
  return child.wait(kStopTime).status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobRunner>> JobRunner::open(const std::string& folder,
                                                           double seconds_max) {
  std::unique_ptr<JobRunner> runner(new JobRunner(folder, seconds_max));
  ASSIGN_OR_RETURN(runner->inbox_, SignalInbox::open());
  ASSIGN_OR_RETURN(runner->program_, real_files().read_symlink("/proc/self/exe"));
  return runner;
}

std::string JobRunner::at(const std::string& name) const { return join_path(folder_, name); }

absl::StatusOr<JobEnd> JobRunner::run(const JobRequest& request) {
  RETURN_IF_ERROR(remove_tree(real_files(), at("job")));
  ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, start(request));
  JobEnd end;
  ASSIGN_OR_RETURN(const bool ended, await(*child, request, end));
  if (ended && end.signal == 0) RETURN_IF_ERROR(collect(*child, end));
  RETURN_IF_ERROR(remove_tree(real_files(), at("job")));
  return end;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> JobRunner::start(const JobRequest& request) const {
  SpawnOptions options{.program = program_};
  options.arguments = {"run", request.config, "--out", at("job"), "--json", "--quiet"};
  if (!request.faults.empty())
    options.arguments.insert(options.arguments.end(), {"--faults", request.faults});
  for (const std::string& setting : request.settings)
    options.arguments.insert(options.arguments.end(), {"--set", setting});
  // Ctrl-C is this process's, which ends the run in its own way.
  options.own_group = true;
  options.parent_death_signal = SIGTERM;
  constexpr int kFlags = O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC;
  const int out = ::open(at("summary.json").c_str(), kFlags, 0644);
  const absl::Cleanup close_out = [out] { ::close(out); };
  const int log = ::open(at("run.log").c_str(), kFlags, 0644);
  const absl::Cleanup close_log = [log] { ::close(log); };
  if (out < 0 || log < 0)
    return InvalidInput(absl::StrCat("--out: files cannot be created in ", folder_));
  options.stdout_fd = out;
  options.stderr_fd = log;
  return spawn(options);
}

// False: it was stopped.
absl::StatusOr<bool> JobRunner::await(ChildProcess& child, const JobRequest& request, JobEnd& end) {
  pollfd waits[] = {{child.exit_fd(), POLLIN, 0}, {inbox_->fd(), POLLIN, 0}};
  const absl::Duration began = real_clock().now(), deadline = began + absl::Seconds(max_);
  absl::Duration next = began;
  MetricsTail metrics(real_files(), at("job/metrics.jsonl"));
  while (!child.try_wait()) {
    const absl::Duration now = real_clock().now();
    if (now >= next) {
      look(now - began, metrics, end.seen);
      next = now + request.look_every;
    }
    const double left = absl::ToDoubleMilliseconds(std::min(deadline, next) - real_clock().now());
    if (left > 0) ::poll(waits, 2, static_cast<int>(std::min(left + 1, 1e9)));
    for (const int taken : inbox_->take()) end.signal = taken;
    if (end.signal == 0 && real_clock().now() < deadline) continue;
    RETURN_IF_ERROR(stop(child));
    return false;
  }
  return true;
}

void JobRunner::look(absl::Duration since, MetricsTail& metrics, JobSightings& seen) const {
  const double seconds = absl::ToDoubleSeconds(since);
  const int64_t newest = metrics.newest_step();
  if (newest > (seen.steps.empty() ? 0 : seen.steps.back().step))
    seen.steps.push_back({seconds, newest});
  const auto entries = real_files().list(at("job/checkpoints"));
  std::set<int64_t> known;
  for (const auto& checkpoint : seen.checkpoints) known.insert(checkpoint.step);
  for (const std::string& name : entries.ok() ? *entries : std::vector<std::string>()) {
    absl::string_view digits = name;
    int64_t step = 0;
    if (absl::ConsumePrefix(&digits, "step-") && absl::SimpleAtoi(digits, &step) &&
        known.insert(step).second)
      seen.checkpoints.push_back({seconds, step, newest});
  }
  const auto workers = read_file(real_files(), at("job/workers.json"), kJobResultBytesMax);
  const nlohmann::json roles = nlohmann::json::parse(workers.ok() ? *workers : "", nullptr, false);
  if (!roles.is_object()) return;
  for (const auto& [role, pid] : roles.items()) {
    if (pid.is_number_integer())
      seen.memory_peak_bytes = std::max(seen.memory_peak_bytes, resident_peak(pid));
  }
}

absl::Status JobRunner::collect(ChildProcess& child, JobEnd& end) const {
  const std::optional<ExitStatus> status = child.try_wait();
  ASSIGN_OR_RETURN(const std::string printed,
                   read_file(real_files(), at("summary.json"), kJobResultBytesMax));
  end.summary = nlohmann::json::parse(printed, nullptr, false);
  if (!end.summary.is_object()) end.summary = nullptr;
  if (status && status->code == 2 && status->signal == 0) {
    ASSIGN_OR_RETURN(const std::string log,
                     read_file(real_files(), at("run.log"), kJobResultBytesMax));
    return InvalidInput(absl::StrCat("a run was refused: ", log));
  }
  const auto metrics = read_file(real_files(), at("job/metrics.jsonl"), kJobMetricsBytesMax);
  if (metrics.ok()) end.metrics = *metrics;
  return absl::OkStatus();
}

}  // namespace evermoe
