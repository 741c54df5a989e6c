#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/launch/protected_run_loop.h"
#include "control/launch/workers_file.h"

namespace evermoe {
namespace {

constexpr size_t kArrivedMax = 1 << 20;
constexpr absl::Duration kSleepMax = absl::Milliseconds(500);
constexpr absl::Duration kRetry = absl::Milliseconds(50);

// A name that vanishes with the process that listens there, so that the next controller can take
// it.
std::string address_at(absl::Duration now) {
  return absl::StrCat("unix-abstract:evermoe-", ::getpid(), "-", absl::ToInt64Nanoseconds(now));
}

}  // namespace

ProtectedRun::ProtectedRun(Files& files, Clock& clock, const ProtectedRunOptions& options,
                           RunObserver& observer, SignalInbox& signals,
                           const std::set<int>& injected)
    : files_(files),
      clock_(clock),
      options_(options),
      observer_(observer),
      signals_(signals),
      topology_(options.controller.lanes, std::ssize(options.controller.lanes)),
      arrived_(kArrivedMax),
      book_(clock.now()),
      began_(clock.now()),
      faults_(options.faults, injected, injected_faults_path(options.faults_path), began_),
      local_address_(address_at(clock.now())),
      address_(options.address.empty() ? local_address_ : options.address),
      time_(clock.now(), options.agent.own_standstill) {}

RunOutcome ProtectedRun::run() {
  const auto& core = options_.controller.core;
  start_controller();
  const int here = options_.address.empty() ? core.nodes + core.spares : 1;
  for (int32_t node = 0; node < here && !failure_; ++node) start_agent(Node(node));
  while (!is_over()) {
    wait();
    for (const int number : signals_.take()) on_signal(number);
    take_mail();
    look_after_controller();
    look_after_agents();
    look_after_call();
    faults_.inject_due(clock_.now(), [this](const Fault& fault) { inject(fault); });
  }
  call_.reset();
  agents_.clear();
  controller_.reset();
  workers_.clear();
  write_workers();
  return outcome();
}

bool ProtectedRun::is_over() const {
  if (failure_) return true;
  if (!end_) return false;
  return (agents_.empty() && controller_ == nullptr) || clock_.now() >= farewell_ends_;
}

void ProtectedRun::wait() {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}, {arrived_.fd(), POLLIN, 0}};
  if (controller_ != nullptr) watched.push_back({controller_->exit_fd(), POLLIN, 0});
  for (const auto& [node, agent] : agents_) watched.push_back({agent->exit_fd(), POLLIN, 0});
  const absl::Duration fault = std::max(faults_.next() - clock_.now(), absl::ZeroDuration());
  const absl::Duration sleep =
      std::min(is_attached_ ? kSleepMax : kRetry, fault + absl::Milliseconds(1));
  ::poll(watched.data(), watched.size(), static_cast<int>(absl::ToInt64Milliseconds(sleep)));
}

void ProtectedRun::on_signal(int number) {
  const std::string name = number == SIGINT ? "interrupted" : absl::StrCat("signal ", number);
  const StopRequest::Meaning meaning = stop_.on_signal(clock_.now());
  if (meaning == StopRequest::Meaning::kRepeat) return;
  if (meaning == StopRequest::Meaning::kQuit) {
    observer_.on_say(name + ": quitting at once");
    return fail(128 + number, name + " again: quit at once");
  }
  observer_.on_say(name + ": the workers finish their step, save and end; once more quits at once");
  if (is_attached_) call_->send({0, Drain{}});
}

void ProtectedRun::inject(const Fault& fault) {
  observer_.on_say(absl::StrCat("a rehearsed fault fires: ", to_string(fault)));
  const auto agent = agents_.find(Node(fault.node));
  const auto worker = workers_.find(absl::StrCat(fault.role.stage, ".", fault.role.lane));
  if (fault.kind == FaultKind::kKillController && controller_ != nullptr) controller_->kill_group();
  if (fault.kind == FaultKind::kKillNode && agent != agents_.end()) agent->second->kill_group();
  if (worker == workers_.end()) return;
  if (fault.kind == FaultKind::kKillWorker) ::kill(worker->second, SIGKILL);
  if (fault.kind == FaultKind::kStopWorker) ::kill(worker->second, SIGSTOP);
}

void ProtectedRun::fail(int exit_code, std::string reason) {
  if (failure_) return;
  failure_.emplace();
  failure_->exit_code = exit_code;
  failure_->reason = std::move(reason);
}

// ---- the line to the controller

void ProtectedRun::look_after_call() {
  const absl::Duration now = clock_.now();
  if (call_ == nullptr && now >= retry_at_ && !end_ && !failure_) {
    call_.reset(new ControlCall(address_, StreamNumber(++calls_), *this));
    call_->send({0, RunHello{}});
  }
  if (end_) call_.reset();  // the controller waits for us to go
  if (!is_attached_ || now < next_beat_) return;
  next_beat_ = now + options_.agent.beat;
  call_->send({0, Beat{}});
}

void ProtectedRun::take_mail() {
  for (const Arrived& one : arrived_.take()) {
    if (call_ == nullptr || one.stream != StreamNumber(calls_)) continue;
    if (one.envelope) {
      heard_ = time_.at(clock_.now());
      std::visit([this](const auto& message) { hear(message); }, one.envelope->message);
    } else {
      call_.reset();
      is_attached_ = false;
      heard_ = time_.at(clock_.now());  // from now on it is given the time to come up
      retry_at_ = clock_.now() + kRetry;
    }
  }
}

void ProtectedRun::hear(const Welcome&) {
  is_attached_ = true;
  if (stop_.is_drain_wanted()) call_->send({0, Drain{}});
}

void ProtectedRun::hear(const WorkerReport& report) {
  note(report);
  observer_.on_report(report);
}

void ProtectedRun::note(const WorkerReport& report) {
  using Kind = WorkerReport::Kind;
  if (report.kind == Kind::kReady && report.rank == Rank(0)) book_.on_restarted_from(report.step);
  if (report.kind == Kind::kFinished) drained_ = report.drained;
  if (report.kind != Kind::kStep || report.step <= newest_) return;
  newest_ = report.step;
  controller_losses_ = agent_losses_ = 0;
}

void ProtectedRun::hear(const RoleProcess& process) {
  const std::string role = name_of(process.rank);
  if (process.pid == 0)
    workers_.erase(role);
  else
    workers_[role] = process.pid;
  write_workers();
}

// A node that the controller has given up must not go on, not even when it was only stopped.
void ProtectedRun::hear(const NodeLost& lost) {
  const auto agent = agents_.find(lost.node);
  if (agent == agents_.end() || agent->second->pid() != lost.agent || agent->second->try_wait())
    return;
  observer_.on_say(absl::StrCat("node ", lost.node.value, " is ended: ", lost.why));
  agent->second->kill_group();
}

void ProtectedRun::hear(const RecoveryNote& note) {
  if (const auto line = book_.on_note(life_, note)) observer_.on_say(*line);
}

void ProtectedRun::hear(const EndJob& end) {
  if (end_) return;
  end_ = end;
  farewell_ends_ = clock_.now() + kFarewellMax;
  is_attached_ = false;
}

// ---- for people and scripts

std::string ProtectedRun::name_of(Rank rank) const {
  if (rank.value >= topology_.world_size()) return absl::StrCat("rank ", rank.value);
  return topology_.name_of(rank);
}

void ProtectedRun::write_workers() {
  std::map<std::string, pid_t> control;
  if (controller_ != nullptr) control["controller"] = controller_->pid();
  for (const auto& [node, agent] : agents_)
    control[absl::StrCat("agent.", node.value)] = agent->pid();
  absl::Status status =
      write_workers_file(files_, join_path(options_.out, "workers.json"), workers_);
  status.Update(write_workers_file(files_, join_path(options_.out, "control.json"), control));
  // Nothing depends on the file: a full disk is said once and does not stop the job.
  if (!status.ok() && !workers_file_broken_)
    observer_.on_say(absl::StrCat("warning: ", status.message()));
  workers_file_broken_ = !status.ok();
}

RunOutcome ProtectedRun::outcome() const {
  RunOutcome outcome;
  if (failure_) outcome = *failure_;
  outcome.steps = newest_;
  outcome.failures = book_.failures();
  outcome.restarts = book_.restarts();
  if (failure_ || !end_) return outcome;
  outcome.exit_code = end_->ok ? 0 : end_->bad_input ? kExitBadInput : kExitFailed;
  outcome.reason = end_->reason;
  if (!end_->ok) return outcome;
  outcome.status = drained_ ? RunStatus::kDrained : RunStatus::kFinished;
  outcome.reason = drained_ ? "stopped before the last step because it was asked to"
                            : absl::StrCat("all ", options_.steps.value, " steps are done");
  return outcome;
}

absl::StatusOr<RunOutcome> run_protected(Files& files, Clock& clock,
                                         const ProtectedRunOptions& options,
                                         RunObserver& observer) {
  RETURN_IF_ERROR(files.create_directories(join_path(options.out, "logs")));
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalInbox> signals, SignalInbox::open());
  ASSIGN_OR_RETURN(const std::set<int> injected,
                   read_injected_faults(injected_faults_path(options.faults_path)));
  return ProtectedRun(files, clock, options, observer, *signals, injected).run();
}

}  // namespace evermoe
