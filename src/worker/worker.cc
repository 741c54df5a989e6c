#include "worker/worker.h"

#include <signal.h>
#include <sys/prctl.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_config.h"
#include "config/job_data.h"
#include "config/job_topology.h"
#include "data/job_tokens.h"
#include "env/clock.h"
#include "tensor/arithmetic_identity.h"
#include "tensor/host_memory.h"
#include "train/sandbox/sandbox.h"
#include "worker/joiner_process.h"
#include "worker/member_worker.h"
#include "worker/standby_line.h"
#include "worker/worker_device.h"

namespace evermoe {
namespace {

// Set by any number of signals: a terminal's Ctrl-C reaches the workers of a node as well as the
// node, which then asks for the same. Who wants a worker to end at once kills it, as its agent
// does.
std::atomic<bool> is_drain_wanted{false};

void on_drain_signal(int) { is_drain_wanted.store(true); }

bool drain_requested() { return is_drain_wanted.load(); }

void install_drain_signals() {
  struct sigaction action {};
  action.sa_handler = on_drain_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGUSR1, SIG_IGN);  // of a launcher, which sends it to a whole group; the node answers it
}

struct Job {
  JobConfig config;
  TokenParts tokens;
};

absl::StatusOr<Job> load_job(const WorkerOptions& options) {
  Job job;
  ASSIGN_OR_RETURN(job.config, load_config(options.config_path, {}));
  // Whoever started the job has prepared them.
  ASSIGN_OR_RETURN(job.tokens,
                   open_job_tokens(token_source(job.config.data), join_path(options.out, "cache")));
  return job;
}

void set_up_computing(const JobConfig& config) {
  keep_freed_memory();
  set_compute_threads(static_cast<int>(config.run.threads));
}

// For ps and top.
void name_process(const std::string& name) {
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", name).c_str());
}

// It may become any of them, so it computes steps of one of each kind.
absl::Status warm_up(const JobConfig& config, const TokenParts& tokens, c10::Device device) {
  for (const Rank role : roles_by_kind(config)) {
    ASSIGN_OR_RETURN(const SandboxSteps steps, run_in_sandbox(config, tokens, device, role));
    log_info(absl::StrCat("as ", topology_of(config).name_of(role), ": a first step took ",
                          absl::FormatDuration(steps.first), ", the next one ",
                          absl::FormatDuration(steps.second)));
  }
  return absl::OkStatus();
}

// Until then it may wait for a certain role, for as long as that is wanted.
TakeRole wait_for_role(StandbyLine& line, const WorkerOptions& options, const Job& job,
                       Inheritance& inherited) {
  std::unique_ptr<JoinerProcess> joiner;
  while (true) {
    const StandbyLine::Order order = line.next_order();
    if (const auto* const role = std::get_if<TakeRole>(&order)) {
      if (joiner != nullptr) inherited.chunks = joiner->take(role->rank, role->since);
      return *role;
    }
    const auto& wanted = std::get<JoinerWanted>(order);
    joiner.reset();
    if (wanted.is_off) continue;
    auto started = JoinerProcess::start(wanted, options, job.config);
    if (!started.ok()) {
      log_error(std::string(started.status().message()));  // and the move is called off
      continue;
    }
    joiner = *std::move(started);
    line.say(JoinerReady{Node(0), wanted.rank, joiner->address()});
  }
}

}  // namespace

absl::Status run_worker(const WorkerOptions& options) {
  install_drain_signals();
  name_process(absl::StrCat(options.rank.value));
  ControlClient client({options.agent, options.rank, options.since});
  const absl::StatusOr<Job> job = load_job(options);
  if (!job.ok()) return close_line(client, job.status());
  set_up_computing(job->config);
  return run_member(options, job->config, job->tokens, drain_requested, client, {});
}

absl::Status run_standby(const WorkerOptions& options) {
  install_drain_signals();
  name_process("standby");
  StandbyLine line(options.agent);
  ASSIGN_OR_RETURN(const Job job, load_job(options));
  set_up_computing(job.config);
  ASSIGN_OR_RETURN(WorkerDevice device, take_device(job.config, real_clock()));
  RETURN_IF_ERROR(warm_up(job.config, job.tokens, device.device));
  line.say(StandbyWarm{});
  Inheritance inherited{.device = std::move(device)};
  const WorkerOptions with_role =
      options_with(wait_for_role(line, options, job, inherited), options);
  name_process(absl::StrCat(with_role.rank.value));
  ControlClient client({with_role.agent, with_role.rank, with_role.since});
  return run_member(with_role, job.config, job.tokens, drain_requested, client,
                    std::move(inherited));
}

}  // namespace evermoe
