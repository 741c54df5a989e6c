#include "control/agent/agent_core.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "control/agent/worker_end.h"
#include "control/health/node_health.h"

namespace evermoe {
namespace {

// Reports that are kept for the next controller; the oldest is forgotten first.
constexpr size_t kUntoldMax = 4096;

}  // namespace

AgentCore::AgentCore(AgentCoreOptions options, absl::Duration now)
    : options_(options),
      time_(now, options.own_standstill),
      now_(now),
      due_(now),
      away_since_(now),
      heard_(now),
      next_beat_(now),
      lateness_(options.own_standstill),
      controller_lateness_(options.own_standstill) {}

// Of a controller that is taken for gone. Where timers are late, here or there, it may be, too.
absl::Duration AgentCore::silence_max() const {
  const absl::Duration limit = options_.silence_max;
  return limit +
         std::max(lateness_.allowance(now_, limit), controller_lateness_.allowance(now_, limit));
}

void AgentCore::beat() {
  Beat beat{.late = now_ - next_beat_, .starved = {}};
  lateness_.note(now_, beat.late);
  for (const auto& [start, worker] : workers_) {
    if (worker.pid == 0 || worker.is_disowned) continue;
    beat.starved.push_back({worker.rank, worker.since, options_.starved(worker.pid)});
  }
  next_beat_ = now_ + options_.beat;
  tell(std::move(beat));
}

absl::Duration AgentCore::next_deadline() const { return next_due() + time_.lost(); }

absl::Duration AgentCore::next_due() const {
  switch (phase_) {
    case Phase::kAway: return std::min(due_, away_since_ + options_.away_max);
    case Phase::kAttaching: return heard_ + silence_max();
    case Phase::kRegistering:
      return std::min({now_ < due_ ? due_ : measured_by_, next_beat_, heard_ + silence_max(),
                       plans_.next_due(), partners_.next_due(), answers_.next_due()});
    case Phase::kReady:
      return std::min({next_beat_, heard_ + silence_max(), plans_.next_due(), partners_.next_due(),
                       answers_.next_due()});
    case Phase::kQuitting: break;
  }
  return absl::InfiniteDuration();
}

AgentActions AgentCore::on_time(absl::Duration now) {
  now_ = time_.at(now);
  if (phase_ == Phase::kQuitting) return take();
  if (phase_ != Phase::kAway && now_ >= heard_ + silence_max()) lose_controller();
  if (has_controller() && now_ >= next_beat_) beat();
  if (phase_ == Phase::kRegistering) ready_if_all_registered();
  if (has_controller()) {
    act(plans_.on_time(now_));
    act(partners_.on_time(now_));
    cut_late_askers();
  }
  if (phase_ == Phase::kAway && now_ >= away_since_ + options_.away_max) {
    quit(false, absl::StrCat("no controller for ", absl::FormatDuration(options_.away_max)));
  }
  if (phase_ == Phase::kAway && now_ >= due_) attach();
  return take();
}

// ---- the controller

void AgentCore::attach() {
  phase_ = Phase::kAttaching;
  heard_ = now_;
  actions_.emplace_back(AttachController{});
  tell(AgentHello{.node = options_.node,
                  .pid = options_.pid,
                  .host = options_.host,
                  .workers = static_cast<int>(workers_.size())});
}

void AgentCore::lose_controller() {
  if (has_controller()) away_since_ = now_;
  phase_ = Phase::kAway;
  due_ = now_ + options_.retry;
  act(plans_.forget());
  act(partners_.forget());
  for (auto& [start, worker] : workers_) worker.is_registered = false;
}

AgentActions AgentCore::on_controller_broken(absl::Duration now) {
  now_ = time_.at(now);
  if (phase_ != Phase::kQuitting && phase_ != Phase::kAway) lose_controller();
  return take();
}

AgentActions AgentCore::on_controller(absl::Duration now, const Envelope& envelope) {
  heard_ = now_ = time_.at(now);
  if (phase_ == Phase::kQuitting || phase_ == Phase::kAway) return take();
  std::visit([&](const auto& message) { handle(envelope, message); }, envelope.message);
  return take();
}

void AgentCore::handle(const Envelope&, const Welcome& welcome) {
  if (phase_ != Phase::kAttaching) return;
  if (is_older(welcome)) return lose_controller();
  if (life_ && welcome.term.number > term_.number && !is_same_job(welcome.term, term_))
    disown_all();
  life_ = welcome.life;
  term_ = welcome.term;
  phase_ = Phase::kRegistering;
  due_ = now_ + options_.registering_max;
  measured_by_ = now_ + options_.measuring_max;
  next_beat_ = now_ + options_.beat;
  for (const auto& [start, worker] : workers_) {
    if (worker.is_disowned) continue;
    tell(WorkerStarted{worker.rank, worker.since, worker.pid}, start);
    if (worker.stream) actions_.emplace_back(ToWorker{*worker.stream, {0, welcome}});
  }
  ready_if_all_registered();
}

bool AgentCore::is_older(const Welcome& welcome) const {
  if (welcome.term.number != term_.number) return welcome.term.number < term_.number;
  return life_ && welcome.life < *life_;
}

void AgentCore::disown_all() {
  waiting_.clear();
  for (auto& [start, worker] : workers_) {
    worker.is_disowned = true;
    actions_.emplace_back(SignalWorker{start, SIGKILL});
  }
}

// A worker that has not attached yet is not waited for: it knows nothing that a controller has to
// know.
void AgentCore::ready_if_all_registered() {
  const bool all = std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker.second.is_registered || worker.second.is_disowned || !worker.second.stream;
  });
  if (!all && now_ < due_) return;
  if (waits_for_health() && workers_.empty() && now_ < measured_by_) return;
  phase_ = Phase::kReady;
  tell_ready();
  for (Envelope& report : std::exchange(untold_, {}))
    actions_.emplace_back(ToController{std::move(report)});
}

void AgentCore::tell_ready() {
  std::vector<std::string> complaints = complaints_.value_or(std::vector<std::string>{});
  if (waits_for_health()) complaints.push_back(kNotMeasured);
  tell(AgentReady{options_.arithmetic, plan_name(), std::move(complaints)});
}

AgentActions AgentCore::on_health(absl::Duration now, std::vector<std::string> complaints) {
  now_ = time_.at(now);
  const bool is_new = complaints_ != complaints;
  complaints_ = std::move(complaints);
  if (phase_ == Phase::kRegistering)
    ready_if_all_registered();
  else if (phase_ == Phase::kReady && is_new)
    tell_ready();
  return take();
}

void AgentCore::handle(const Envelope& envelope, const StartWorker& start) {
  bool must_wait = false;
  for (auto& [number, worker] : workers_) {
    if (worker.rank != start.rank) continue;
    must_wait = true;
    worker.is_disowned = true;
    actions_.emplace_back(SignalWorker{number, SIGKILL});
  }
  if (must_wait)
    waiting_[start.rank] = {envelope.start, start};
  else
    spawn(envelope.start, start);
}

void AgentCore::handle(const Envelope& envelope, const KillWorker& kill) {
  if (const auto waiting = waiting_.find(kill.rank);
      waiting != waiting_.end() && waiting->second.first == envelope.start) {
    waiting_.erase(waiting);
  }
  if (workers_.contains(envelope.start))
    actions_.emplace_back(SignalWorker{envelope.start, SIGKILL});
}

void AgentCore::handle(const Envelope& envelope, const SendOrder& order) {
  if (const auto* const stop = std::get_if<StopOrder>(&order.message))
    act(plans_.forget_before(stop->view));
  const auto worker = workers_.find(envelope.start);
  if (worker == workers_.end() || !worker->second.stream) return;
  actions_.emplace_back(ToWorker{*worker->second.stream, {0, order}});
}

void AgentCore::handle(const Envelope&, const Drain&) {
  is_draining_ = true;
  for (auto& worker : workers_) ask_to_drain(worker);
}

// Not before it has attached, because a program that has just begun does not listen to signals yet.
void AgentCore::ask_to_drain(Workers::value_type& worker) {
  if (!worker.second.stream || std::exchange(worker.second.is_asked_to_drain, true)) return;
  actions_.emplace_back(SignalWorker{worker.first, SIGTERM});
}

void AgentCore::handle(const Envelope&, const EndJob& end) { quit(true, end.reason); }

void AgentCore::quit(bool ok, const std::string& reason) {
  phase_ = Phase::kQuitting;
  end_ = {ok, reason};
  act(plans_.forget());
  act(partners_.forget());
  disown_all();
  quit_if_alone();
}

void AgentCore::quit_if_alone() {
  if (phase_ == Phase::kQuitting && workers_.empty()) actions_.emplace_back(end_);
}

// ---- workers

void AgentCore::spawn(int64_t start, const StartWorker& order) {
  workers_[start] = {order.rank, order.since};
  actions_.emplace_back(SpawnWorker{start, order.rank, order.since, term_});
}

void AgentCore::spawn_waiting(Rank rank) {
  const bool must_wait = std::any_of(workers_.begin(), workers_.end(),
                                     [&](const auto& w) { return w.second.rank == rank; });
  const auto waiting = waiting_.find(rank);
  if (must_wait || waiting == waiting_.end()) return;
  const auto [start, order] = waiting->second;
  waiting_.erase(waiting);
  spawn(start, order);
}

AgentActions AgentCore::on_spawned(absl::Duration now, int64_t start, pid_t pid) {
  now_ = time_.at(now);
  const auto worker = workers_.find(start);
  if (worker == workers_.end()) return take();
  worker->second.pid = pid;
  if (has_controller()) tell(WorkerStarted{worker->second.rank, worker->second.since, pid}, start);
  return take();
}

AgentActions AgentCore::on_not_spawned(absl::Duration now, int64_t start, const std::string& why) {
  now_ = time_.at(now);
  const auto node = workers_.extract(start);
  if (node.empty()) return take();
  const Worker& worker = node.mapped();
  WorkerEnded ended{worker.rank, worker.since, options_.node,
                    absl::StrCat("cannot be started: ", why)};
  if (has_controller() && !worker.is_disowned) tell(std::move(ended), start);
  quit_if_alone();
  return take();
}

AgentActions AgentCore::on_exit(absl::Duration now, int64_t start, const ExitStatus& exit,
                                const WorkerLogTail& words) {
  now_ = time_.at(now);
  const auto node = workers_.extract(start);
  if (node.empty()) return take();
  const Worker& worker = node.mapped();
  if (has_controller() && !worker.is_disowned) {
    WorkerEnded ended =
        describe_end(exit, worker.failed, words.lines.empty() ? "" : words.lines.back());
    ended.rank = worker.rank;
    ended.since = worker.since;
    ended.node = options_.node;
    tell(std::move(ended), start);
    if (!exit.ok() && exit.signal != SIGKILL && !words.lines.empty()) tell(words);
  }
  if (phase_ != Phase::kQuitting) spawn_waiting(worker.rank);
  quit_if_alone();
  return take();
}

// ---- what workers say

AgentActions AgentCore::on_worker(absl::Duration now, StreamNumber from, const Envelope& envelope) {
  now_ = time_.at(now);
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [&](const auto& w) { return w.second.stream == from; });
  if (worker == workers_.end()) {
    const auto* const hello = std::get_if<WorkerHello>(&envelope.message);
    greet(from, hello == nullptr ? -1 : hello->pid);
  } else {
    std::visit([&](const auto& message) { hear(*worker, message); }, envelope.message);
  }
  return take();
}

AgentActions AgentCore::on_worker_broken(absl::Duration now, StreamNumber stream) {
  now_ = time_.at(now);
  for (auto& [start, worker] : workers_) {
    if (worker.stream == stream) worker.stream.reset();
  }
  if (phase_ == Phase::kRegistering) ready_if_all_registered();
  return take();
}

void AgentCore::greet(StreamNumber stream, pid_t pid) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [&](const auto& w) { return w.second.pid == pid; });
  if (worker == workers_.end() || worker->second.stream) {
    actions_.emplace_back(CutWorker{stream});
    return;
  }
  worker->second.stream = stream;
  if (is_draining_) ask_to_drain(*worker);
  if (has_controller()) actions_.emplace_back(ToWorker{stream, {0, Welcome{*life_, term_}}});
}

// A worker that says what makes no sense is of another version, or broken.
void AgentCore::refuse(Workers::value_type& worker) {
  actions_.emplace_back(SignalWorker{worker.first, SIGKILL});
}

bool AgentCore::speaks_for_itself(const Workers::value_type& worker, Rank rank, View since) const {
  return worker.second.rank == rank && worker.second.since == since;
}

void AgentCore::hear(Workers::value_type& worker, const MemberJoined& joined) {
  if (!speaks_for_itself(worker, joined.rank, joined.since)) return refuse(worker);
  if (!has_controller() || worker.second.is_disowned) return;
  worker.second.is_registered = true;
  tell(joined, worker.first);
  if (phase_ == Phase::kRegistering) ready_if_all_registered();
}

void AgentCore::hear(Workers::value_type& worker, const MemberSaid& said) {
  if (!speaks_for_itself(worker, said.rank, said.since)) return refuse(worker);
  if (worker.second.is_registered) tell(said, worker.first);
}

void AgentCore::hear(Workers::value_type& worker, const MemberAlive& alive) {
  if (!speaks_for_itself(worker, alive.rank, alive.since)) return refuse(worker);
  if (worker.second.is_registered) tell(alive, worker.first);
}

void AgentCore::hear(Workers::value_type& worker, const WorkerReport& report) {
  if (report.rank != worker.second.rank) return refuse(worker);
  if (report.kind == WorkerReport::Kind::kFailed) worker.second.failed = report;
  if (worker.second.is_disowned) return;
  if (phase_ == Phase::kReady) return tell(report, worker.first);
  untold_.push_back({worker.first, report});
  if (untold_.size() > kUntoldMax) untold_.pop_front();
}

}  // namespace evermoe
