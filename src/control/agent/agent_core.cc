#include "control/agent/agent_core.h"

#include <signal.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "control/agent/processes/worker_end.h"
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
      next_beat_(now),
      controller_(options.silence_max, options.own_standstill, now),
      partners_(options.node) {}

// ---- time

absl::Duration AgentCore::next_deadline() const {
  absl::Duration next = absl::InfiniteDuration();
  if (phase_ == Phase::kAway) next = std::min(due_, away_since_ + options_.away_max);
  if (phase_ == Phase::kAttaching || has_controller()) next = controller_.gone_at(now_);
  if (has_controller())
    next = std::min({next, next_beat_, plans_.next_due(), partners_.next_due()});
  next = std::min(next, workers_.next_due());
  if (phase_ == Phase::kRegistering) next = std::min(next, now_ < due_ ? due_ : measured_by_);
  return next + time_.lost();
}

AgentActions AgentCore::on_time(absl::Duration now) {
  now_ = time_.at(now);
  if (phase_ == Phase::kQuitting) return take();
  act(workers_.end_late(now_));
  if (phase_ != Phase::kAway && now_ >= controller_.gone_at(now_)) lose_controller();
  if (has_controller() && now_ >= next_beat_) beat();
  if (phase_ == Phase::kRegistering) ready_if_all_registered();
  if (has_controller()) {
    act(plans_.on_time(now_));
    act(partners_.on_time(now_));
  }
  if (phase_ == Phase::kAway && now_ >= away_since_ + options_.away_max) {
    quit(false, absl::StrCat("no controller for ", absl::FormatDuration(options_.away_max)));
  }
  if (phase_ == Phase::kAway && now_ >= due_) attach();
  return take();
}

void AgentCore::beat() {
  const absl::Duration late = now_ - next_beat_;
  controller_.on_own_lateness(now_, late);
  next_beat_ = now_ + options_.beat;
  tell(Beat{late, workers_.starved(options_.starved), workers_.take_signs()});
}

// ---- the controller

void AgentCore::attach() {
  phase_ = Phase::kAttaching;
  controller_.on_sign(now_);
  actions_.emplace_back(AttachController{});
  tell(AgentHello{.node = options_.node,
                  .pid = options_.pid,
                  .host = options_.host,
                  .workers = static_cast<int>(workers_.size()),
                  .incarnation = options_.incarnation});
}

void AgentCore::lose_controller() {
  if (has_controller()) away_since_ = now_;
  phase_ = Phase::kAway;
  due_ = now_ + options_.retry;
  act(plans_.forget());
  act(partners_.forget());
  workers_.forget_registrations();
}

AgentActions AgentCore::on_controller_broken(absl::Duration now) {
  now_ = time_.at(now);
  if (phase_ != Phase::kQuitting && phase_ != Phase::kAway) lose_controller();
  return take();
}

AgentActions AgentCore::on_controller(absl::Duration now, const Envelope& envelope) {
  now_ = time_.at(now);
  controller_.on_sign(now_);
  if (phase_ == Phase::kQuitting || phase_ == Phase::kAway) return take();
  std::visit([&](const auto& message) { handle(envelope, message); }, envelope.message);
  return take();
}

void AgentCore::handle(const Envelope&, const Welcome& welcome) {
  if (phase_ != Phase::kAttaching) return;
  if (controller_.is_older(welcome)) return lose_controller();
  if (controller_.is_of_another_job(welcome)) {
    act(workers_.disown_all());
    act(standbys_.end_all());
  }
  controller_.meet(welcome);
  act(standbys_.forget_wanted());
  phase_ = Phase::kRegistering;
  due_ = now_ + options_.registering_max;
  measured_by_ = now_ + options_.measuring_max;
  next_beat_ = now_ + options_.beat;
  for (const auto& [start, worker] : workers_) {
    if (worker.is_disowned) continue;
    tell(WorkerStarted{worker.rank, worker.since, worker.pid, worker.was_standby}, start);
    if (worker.stream) actions_.emplace_back(ToWorker{*worker.stream, {0, welcome}});
  }
  // Whom the controller does not hear of it takes for lost with the node's old line.
  for (const auto& [rank, waiting] : workers_.waiting())
    tell(WorkerStarted{rank, waiting.order.since}, waiting.start);
  ready_if_all_registered();
}

void AgentCore::ready_if_all_registered() {
  if (!workers_.have_registered() && now_ < due_) return;
  if (waits_for_health() && workers_.is_empty() && now_ < measured_by_) return;
  phase_ = Phase::kReady;
  tell_ready();
  for (Envelope& report : std::exchange(untold_, {}))
    actions_.emplace_back(ToController{std::move(report)});
}

void AgentCore::tell_ready() {
  std::vector<std::string> complaints = complaints_.value_or(std::vector<std::string>{});
  if (waits_for_health()) complaints.push_back(kNotMeasured);
  tell(AgentReady{options_.arithmetic, plans_.name(), std::move(complaints), kept(),
                  workers_.is_draining()});
}

// Who forgets its role is nearly one.
StandbysKept AgentCore::kept() const {
  StandbysKept kept = standbys_.kept();
  kept.warming += workers_.relieved();
  return kept;
}

void AgentCore::tell_standbys(std::string failure) {
  if (phase_ != Phase::kReady) return;
  StandbysKept kept = this->kept();
  kept.failure = std::move(failure);
  tell(std::move(kept));
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
  act(workers_.start(envelope.start, start, controller_.term()));
}

void AgentCore::handle(const Envelope&, const KeepStandbys& order) {
  AgentActions spawns = standbys_.keep(order.count - workers_.relieved(), order.roles);
  // Before one of them fails, which is told, too.
  tell_standbys();
  act(std::move(spawns));
}

void AgentCore::handle(const Envelope& envelope, const KillWorker& kill) {
  AgentActions actions;
  const bool lives_on = kill.becomes_standby &&
                        workers_.relieve(now_, envelope.start, standbys_.next_number(), actions);
  act(lives_on ? std::move(actions) : workers_.kill(envelope.start, kill.rank));
  // The controller counts on it.
  if (kill.becomes_standby) tell_standbys();
}

void AgentCore::handle(const Envelope& envelope, const SendOrder& order) {
  if (const auto* const stop = std::get_if<StopOrder>(&order.message))
    act(plans_.forget_before(stop->view));
  act(workers_.hand_on(envelope.start, order));
}

void AgentCore::handle(const Envelope&, const PlanUpdate& update) {
  if (std::optional<AgentActions> actions = plans_.on_update(update, workers_))
    act(*std::move(actions));
  else
    lose_controller();
}

void AgentCore::handle(const Envelope&, const FetchPlan& fetch) {
  act(plans_.on_fetch(now_, fetch, workers_));
}

void AgentCore::handle(const Envelope&, const EndJob& end) { quit(true, end.reason); }

void AgentCore::quit(bool ok, const std::string& reason) {
  phase_ = Phase::kQuitting;
  end_ = {ok, reason};
  act(plans_.forget());
  act(partners_.forget());
  act(workers_.disown_all());
  act(standbys_.end_all());
  quit_if_alone();
}

void AgentCore::quit_if_alone() {
  if (phase_ == Phase::kQuitting && workers_.is_empty() && standbys_.is_empty())
    actions_.emplace_back(end_);
}

// ---- workers

AgentActions AgentCore::on_spawned(absl::Duration now, int64_t start, pid_t pid) {
  now_ = time_.at(now);
  standbys_.on_spawned(start, pid);
  AgentWorker* const worker = workers_.find(start);
  if (worker == nullptr) return take();
  worker->pid = pid;
  if (has_controller())
    tell(WorkerStarted{worker->rank, worker->since, pid, worker->was_standby}, start);
  return take();
}

AgentActions AgentCore::on_not_spawned(absl::Duration now, int64_t start, const std::string& why) {
  now_ = time_.at(now);
  if (AgentStandbys::is_standby(start)) {
    lose_standby(start, absl::StrCat("cannot be started: ", why));
    return take();
  }
  const std::optional<AgentWorker> worker = workers_.remove(start);
  if (!worker) return take();
  WorkerEnded ended{worker->rank, worker->since, options_.node,
                    absl::StrCat("cannot be started: ", why)};
  if (has_controller() && !worker->is_disowned) tell(std::move(ended), start);
  quit_if_alone();
  return take();
}

AgentActions AgentCore::on_exit(absl::Duration now, int64_t start, const ExitStatus& exit,
                                const WorkerLogTail& words) {
  now_ = time_.at(now);
  const std::string last_words = words.lines.empty() ? "" : words.lines.back();
  if (AgentStandbys::is_standby(start)) {
    lose_standby(start, describe_end(exit, std::nullopt, last_words).how);
    return take();
  }
  const std::optional<AgentWorker> worker = workers_.remove(start);
  if (!worker) return take();
  if (has_controller() && !worker->is_disowned) {
    WorkerEnded ended = describe_end(exit, worker->failed, last_words);
    ended.rank = worker->rank;
    ended.since = worker->since;
    ended.node = options_.node;
    tell(std::move(ended), start);
    if (!exit.ok() && exit.signal != SIGKILL && !words.lines.empty()) tell(words);
  }
  if (worker->becomes_standby != 0) tell_standbys("it ended when its role had moved away");
  if (phase_ != Phase::kQuitting) act(workers_.start_waiting(worker->rank, controller_.term()));
  quit_if_alone();
  return take();
}

AgentActions AgentCore::on_worker(absl::Duration now, StreamNumber from, const Envelope& envelope) {
  now_ = time_.at(now);
  if (AgentWorkers::Entry* const worker = workers_.speaking_on(from)) {
    follow(*worker, std::visit(
                        [&](const auto& message) {
                          return hear_of_worker(worker->second, has_controller(), message);
                        },
                        envelope.message));
    return take();
  }
  if (hear_standby(from, envelope) || adopt_standby(from, envelope)) return take();
  const auto* const hello = std::get_if<WorkerHello>(&envelope.message);
  if (auto greeted = workers_.attach(from, hello == nullptr ? -1 : hello->pid)) {
    act(*std::move(greeted));
    if (has_controller()) actions_.emplace_back(ToWorker{from, {0, controller_.welcome()}});
  } else {
    actions_.emplace_back(CutWorker{from});
  }
  return take();
}

bool AgentCore::hear_standby(StreamNumber from, const Envelope& envelope) {
  if (const auto* const hello = std::get_if<WorkerHello>(&envelope.message))
    return standbys_.attach(from, hello->pid);
  const std::optional<int64_t> standby = standbys_.speaking_on(from);
  if (!standby) return false;
  if (std::holds_alternative<StandbyWarm>(envelope.message)) {
    standbys_.on_warm(*standby);
    tell_standbys();
  } else if (const auto* const ready = std::get_if<JoinerReady>(&envelope.message)) {
    if (phase_ == Phase::kReady) tell(*ready);
  } else {
    actions_.emplace_back(SignalWorker{*standby, SIGKILL});
  }
  return true;
}

bool AgentCore::adopt_standby(StreamNumber from, const Envelope& envelope) {
  const auto* const hello = std::get_if<WorkerHello>(&envelope.message);
  const auto worker = hello == nullptr ? std::nullopt : workers_.take_relieved(hello->pid);
  if (!worker) return false;
  const auto& [start, role] = *worker;
  standbys_.adopt(role.becomes_standby, role.pid, from, role.warm_for);
  actions_.emplace_back(AdoptStandby{start, role.becomes_standby});
  if (has_controller() && !role.is_disowned)
    tell(WorkerEnded{role.rank, role.since, options_.node, "its role is another process's"}, start);
  act(workers_.start_waiting(role.rank, controller_.term()));
  return true;
}

void AgentCore::lose_standby(int64_t number, const std::string& how) {
  if (!standbys_.on_exit(number)) return;
  tell_standbys(how);
  quit_if_alone();
}

AgentActions AgentCore::on_worker_broken(absl::Duration now, StreamNumber stream) {
  now_ = time_.at(now);
  workers_.on_broken(stream);
  act(standbys_.on_broken(stream));
  if (phase_ == Phase::kRegistering) ready_if_all_registered();
  return take();
}

void AgentCore::follow(AgentWorkers::Entry& worker, HeardOfWorker heard) {
  if (heard.is_nonsense) actions_.emplace_back(SignalWorker{worker.first, SIGKILL});
  if (!heard.told) return;
  if (heard.commit && !workers_.note_commit(*heard.commit)) {
    worker.second.has_given_sign = true;
    return;
  }
  if (!heard.is_kept || phase_ == Phase::kReady) {
    tell(*std::move(heard.told), worker.first);
  } else {
    untold_.push_back({worker.first, *std::move(heard.told)});
    if (untold_.size() > kUntoldMax) untold_.pop_front();
  }
  if (heard.has_registered && phase_ == Phase::kRegistering) ready_if_all_registered();
}

// ---- other agents

AgentActions AgentCore::on_asker(absl::Duration now, StreamNumber from, const Envelope& envelope) {
  now_ = time_.at(now);
  const auto* const wanted = std::get_if<PlanWanted>(&envelope.message);
  const bool is_question = std::holds_alternative<PartnerQuestion>(envelope.message);
  if ((wanted == nullptr && !is_question) || phase_ == Phase::kQuitting) {
    plans_.on_asker_gone(from);
    partners_.on_asker_gone(from);
    actions_.emplace_back(CutAsker{from});
  } else if (is_question) {
    act(partners_.on_question(now_, from));
  } else {
    act(plans_.on_asked(now_, from, wanted->plan));
  }
  return take();
}

AgentActions AgentCore::on_asker_broken(absl::Duration now, StreamNumber stream) {
  now_ = time_.at(now);
  plans_.on_asker_gone(stream);
  partners_.on_asker_gone(stream);
  return take();
}

AgentActions AgentCore::on_asked_agent(absl::Duration now, const Envelope& envelope) {
  now_ = time_.at(now);
  act(plans_.on_answer(envelope, workers_));
  return take();
}

AgentActions AgentCore::on_asked_agent_broken(absl::Duration now, const std::string& why) {
  now_ = time_.at(now);
  act(plans_.on_answerer_gone(why));
  return take();
}

AgentActions AgentCore::on_partner(absl::Duration now, int64_t number, const Envelope& envelope) {
  now_ = time_.at(now);
  act(partners_.on_answer(number, envelope));
  return take();
}

AgentActions AgentCore::on_partner_broken(absl::Duration now, int64_t number,
                                          const std::string& why) {
  now_ = time_.at(now);
  act(partners_.on_broken(now_, number, why));
  return take();
}

void AgentCore::act(AgentActions actions) {
  for (AgentAction& action : actions) {
    if (auto* const spawn = std::get_if<SpawnWorker>(&action))
      start(std::move(*spawn));
    else
      actions_.push_back(std::move(action));
  }
}

void AgentCore::start(SpawnWorker spawn) {
  const auto standby = standbys_.take(spawn.rank);
  if (!standby) return actions_.push_back(std::move(spawn));
  AgentWorker& worker = *workers_.find(spawn.start);
  worker.was_standby = true;
  worker.warm_for = standby->warm_for;
  worker.starved_before = options_.starved(standby->pid);
  actions_.push_back(PromoteStandby{standby->number, standby->line, std::move(spawn)});
  // The controller may not have known that one was warm.
  tell_standbys();
}

}  // namespace evermoe
