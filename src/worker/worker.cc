#include "worker/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "config/job_config.h"
#include "config/job_data.h"
#include "config/job_topology.h"
#include "data/job_tokens.h"
#include "env/clock.h"
#include "tensor/compute_threads.h"
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

// Steps of one of each kind that it may become.
absl::Status warm_up(const JobConfig& config, const TokenParts& tokens, c10::Device device,
                     const std::vector<Rank>& roles) {
  set_compute_priority(ComputePriority::kGivesWay);
  for (const Rank role : roles_by_kind(config, roles)) {
    ASSIGN_OR_RETURN(const SandboxSteps steps, run_in_sandbox(config, tokens, device, role));
    log_info(absl::StrCat("as ", topology_of(config).name_of(role), ": a first step took ",
                          absl::FormatDuration(steps.first), ", the next one ",
                          absl::FormatDuration(steps.second)));
  }
  return absl::OkStatus();
}

using SharedDevice = std::shared_ptr<const WorkerDevice>;

absl::StatusOr<SharedDevice> take_shared_device(const JobConfig& config) {
  ASSIGN_OR_RETURN(WorkerDevice taken, take_device(config, real_clock()));
  return std::make_shared<const WorkerDevice>(std::move(taken));
}

// A member and its line to the agent.
struct RoleWorker {
  RoleWorker(const WorkerOptions& options, const Job& job)
      : client({options.agent, options.rank, options.since}),
        worker(options, job.config, job.tokens, client, drain_requested) {}

  ControlClient client;
  MemberWorker worker;
};

// Of the role for which a standby waits.
struct AwaitedRole {
  std::unique_ptr<JoinerProcess> joiner;  // what it is given
  std::unique_ptr<RoleWorker> process;    // what it will play it with
};

// Where something is lacking the move is called off, or the role prepared when it comes.
AwaitedRole await_role(const JoinerWanted& wanted, StandbyLine& line, WorkerOptions options,
                       const Job& job, const SharedDevice& device) {
  AwaitedRole awaited;
  const auto on_whole = [&line, wanted](std::vector<Chunk> whole) {
    line.put({wanted.rank, wanted.next, std::move(whole)});
  };
  auto joiner = JoinerProcess::start(wanted, options, job.config, on_whole);
  if (!joiner.ok()) {
    log_error(std::string(joiner.status().message()));
    return awaited;
  }
  awaited.joiner = *std::move(joiner);
  line.say(JoinerReady{Node(0), wanted.rank, awaited.joiner->address()});
  options.rank = wanted.rank;
  options.since = wanted.next;
  auto process = std::make_unique<RoleWorker>(options, job);
  const absl::Status prepared =
      guard([&] { return process->worker.prepare(device, awaited.joiner->seat()); });
  if (prepared.ok())
    awaited.process = std::move(process);
  else
    log_error(std::string(prepared.message()));
  return awaited;
}

// When everybody waits for this process there is less to do then.
void restore_ahead(const GivenState& given, AwaitedRole& awaited) {
  if (awaited.process == nullptr || !awaited.process->worker.is_for(given.role, given.next)) return;
  const absl::Status restored =
      guard([&] { return awaited.process->worker.restore_ahead(given.chunks); });
  if (!restored.ok()) log_info(absl::StrCat("not restored ahead: ", restored.message()));
}

TakeRole wait_for_role(StandbyLine& line, const WorkerOptions& options, const Job& job,
                       const SharedDevice& device, AwaitedRole& awaited) {
  while (true) {
    const StandbyLine::Order order = line.next_order();
    if (const auto* const role = std::get_if<TakeRole>(&order)) return *role;
    if (const auto* const given = std::get_if<GivenState>(&order)) {
      restore_ahead(*given, awaited);
      continue;
    }
    const auto& wanted = std::get<JoinerWanted>(order);
    awaited = {};
    if (!wanted.is_off) awaited = await_role(wanted, line, options, job, device);
  }
}

// Warm, until it has a role.
struct RoleTaken {
  std::unique_ptr<RoleWorker> process;
  std::vector<Chunk> inherited;  // what it was given for it
  absl::Status status;           // of what it has prepared for it
};

RoleTaken take_role(StandbyLine& line, const WorkerOptions& options, const Job& job,
                    const SharedDevice& device) {
  // What is done for a role before it is taken, others wait for in the end.
  set_compute_priority(ComputePriority::kUsual);
  line.say(StandbyWarm{});
  AwaitedRole awaited;
  const WorkerOptions with_role =
      options_with(wait_for_role(line, options, job, device, awaited), options);
  name_process(absl::StrCat(with_role.rank.value));
  RoleTaken taken;
  std::shared_ptr<WorkerSeat> seat;
  if (awaited.joiner != nullptr && awaited.joiner->is_for(with_role.rank, with_role.since)) {
    taken.inherited = awaited.joiner->take_over();
    taken.process = std::move(awaited.process);
    seat = awaited.joiner->seat();
  }
  if (taken.process == nullptr) {
    taken.process = std::make_unique<RoleWorker>(with_role, job);
    taken.status = guard([&] { return taken.process->worker.prepare(device, seat); });
  }
  taken.process->worker.take_role(with_role);
  return taken;
}

// Plays it, and those that it is given when another process has it.
absl::Status play(RoleTaken role, const WorkerOptions& options, const Job& job,
                  const SharedDevice& device) {
  while (true) {
    MemberWorker& worker = role.process->worker;
    if (role.status.ok())
      role.status = guard([&] { return worker.run(std::move(role.inherited)); });
    const std::optional<BecomeStandby> relieved = worker.relieved();
    if (!relieved) return close_line(role.process->client, std::move(role.status));
    log_info(
        absl::StrCat("another process has the role: process ", ::getpid(), " becomes a standby"));
    role = {};  // with its line, and the model
    write_to(relieved->log_path);
    name_process("standby");
    StandbyLine line(options.agent);
    role = take_role(line, options, job, device);
  }
}

}  // namespace

absl::Status run_worker(const WorkerOptions& options) {
  install_drain_signals();
  name_process(absl::StrCat(options.rank.value));
  const absl::StatusOr<Job> job = load_job(options);
  if (!job.ok()) {
    ControlClient client({options.agent, options.rank, options.since});
    return close_line(client, job.status());
  }
  set_up_computing(job->config);
  RoleTaken role;
  role.process = std::make_unique<RoleWorker>(options, *job);
  SharedDevice device;
  role.status = guard([&]() -> absl::Status {
    ASSIGN_OR_RETURN(device, take_shared_device(job->config));
    return role.process->worker.prepare(device);
  });
  return play(std::move(role), options, *job, device);
}

absl::Status run_standby(const WorkerOptions& options) {
  install_drain_signals();
  name_process("standby");
  StandbyLine line(options.agent);
  ASSIGN_OR_RETURN(const Job job, load_job(options));
  set_up_computing(job.config);
  ASSIGN_OR_RETURN(const SharedDevice device, take_shared_device(job.config));
  RETURN_IF_ERROR(warm_up(job.config, job.tokens, device->device, options.warms_up_for));
  return play(take_role(line, options, job, device), options, job, device);
}

absl::Status close_line(ControlClient& client, absl::Status status) {
  if (!status.ok()) {
    log_error(std::string(status.message()));  // also where the line itself does not work
    WorkerReport failed{.kind = WorkerReport::Kind::kFailed, .text = std::string(status.message())};
    failed.accused = accused_rank(status);
    failed.bad_input = absl::IsInvalidArgument(status);
    failed.is_hopeless = exit_code(status) == kExitHopeless;
    failed.is_doubted = is_doubtful(status);
    client.report(std::move(failed));
  }
  client.close();
  return status;
}

}  // namespace evermoe
