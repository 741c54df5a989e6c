#include "cluster/supervisor_core.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace evermoe {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitBadInput = 2;
constexpr int kExitSignalBase = 128;

std::string in_words(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? absl::StrCat("signal ", number) : absl::StrCat("SIG", name);
}

bool is_multiple(Step step, int64_t every) { return every > 0 && step.value % every == 0; }

}  // namespace

const char* to_string(RunStatus status) {
  constexpr const char* kNames[] = {"finished", "drained", "failed", "nothing to do"};
  return kNames[static_cast<int>(status)];
}

SupervisorCore::SupervisorCore(SupervisorCoreOptions options)
    : options_(std::move(options)), newest_(options_.start), published_(options_.start) {}

std::vector<SupervisorAction> SupervisorCore::step(absl::Duration now, const SupervisorEvent& event) {
  CHECK(phase_ != Phase::kOver) << "an event after the end";
  CHECK(now >= now_) << "time goes back";
  actions_.clear();
  if (!began_) began_ = moved_at_ = now_ = now;
  forgive_own_standstill(now - now_);
  now_ = now;
  std::visit([this](const auto& e) { on(e); }, event);
  if (phase_ == Phase::kStopping) all_stopped();
  return std::move(actions_);
}

// Nobody could be heard while the supervisor itself did not run.
void SupervisorCore::forgive_own_standstill(absl::Duration gap) {
  if (gap <= options_.own_standstill) return;
  for (WorkerState& worker : workers_) worker.heard += gap;
  moved_at_ += gap;
}

void SupervisorCore::on(const WorkerReported& event) {
  const WorkerReport& report = event.report;
  using Kind = WorkerReport::Kind;
  // A checkpoint that was published just before the workers were killed is there all the same.
  if (report.kind == Kind::kPublished) on_published(report.step);
  if (phase_ != Phase::kRunning) return;
  WorkerState& from = worker(report.rank);
  from.heard = now_;
  from.has_spoken = true;
  switch (report.kind) {
    case Kind::kAlive:
    case Kind::kPublished:
      return;
    case Kind::kReady:
      from.ready = true;
      moved_at_ = now_;
      ready_step_ = std::max(ready_step_, report.step);
      attempt_step_ = std::max(attempt_step_, report.step);
      return on_ready();
    case Kind::kStep:
      return on_step(report.step);
    case Kind::kEvaluated:
      evaluated_ = report.step;
      moved_at_ = now_;
      return;
    case Kind::kFinished:
      from.finished = true;
      from.drained = report.drained;
      moved_at_ = now_;
      return;
    case Kind::kFailed:
      from.failed = report;
      return;
  }
}

// Steps may have been heard of before the last worker was heard to be ready: each has a channel of
// its own.
void SupervisorCore::on_ready() {
  if (!all_ready()) return;
  say(absl::StrCat(workers_.size(), " workers are ready after ", in_words(now_ - workers_[0].started),
                   ", at step ", ready_step_.value, " of ", options_.steps.value));
  if (attempt_ > 1) {
    failures_.back().restarted_from_step = ready_step_;
    note(failures_.back(), "ready");
  }
  caught_up_with(ready_step_);
}

void SupervisorCore::on_step(Step step) {
  if (step == Step(attempt_step_.value + 1) && !does_more_than_steps()) pace_.add(now_ - moved_at_);
  moved_at_ = now_;
  attempt_step_ = step;
  if (step > newest_) {
    newest_ = step;
    restarts_in_row_ = 0;
  }
  caught_up_with(step);
}

void SupervisorCore::on_published(Step step) {
  moved_at_ = now_;
  newest_ = std::max(newest_, step);
  if (step <= published_) return;
  published_ = step;
  restarts_in_row_ = 0;
}

void SupervisorCore::caught_up_with(Step step) {
  for (size_t i = 0; i < failures_.size(); ++i) {
    if (!lost_since_[i] || step < failures_[i].step) continue;
    failures_[i].seconds_lost = absl::ToDoubleSeconds(now_ - *lost_since_[i]);
    note(failures_[i], "caught up");
    lost_since_[i].reset();
  }
}

void SupervisorCore::on(const WorkerUnreadable& event) { worker(event.rank).unreadable = event.reason; }

void SupervisorCore::on(const WorkerNotStarted& event) { worker(event.rank).not_started = event.reason; }

void SupervisorCore::on(const WorkerExited& event) {
  WorkerState& ended = worker(event.rank);
  ended.exit = event.exit;
  ended.last_words = event.last_words;
  if (phase_ != Phase::kRunning) return;
  moved_at_ = ended.finished ? now_ : moved_at_;
  if (ended.finished && !event.exit.ok()) {
    // All that had to be saved was saved before it said that it has finished.
    say(absl::StrCat("worker ", name(event.rank), " had finished its work, then ", to_string(event.exit)));
  }
}

void SupervisorCore::on(const SignalReceived& event) {
  ++signals_;
  if (signals_ > 1) {
    verdict_ = Finish{RunStatus::kFailed, kExitSignalBase + event.signal,
                      absl::StrCat("interrupted by ", signal_name(event.signal))};
    say("quitting at once");
    return kill_all();
  }
  const std::string because = absl::StrCat(signal_name(event.signal), ": ");
  const Finish stopped{RunStatus::kDrained, 0, "stopped before the last step because it was asked to"};
  if (phase_ == Phase::kWaiting) return finish(stopped);
  if (phase_ == Phase::kRunning && all_ready()) {
    draining_ = true;
    moved_at_ = now_;
    say(because + "the workers finish their step, save and end; once more quits at once");
    actions_.emplace_back(SignalAll{SIGTERM});
    return;
  }
  if (!verdict_) verdict_ = stopped;
  say(because + "stopping; no step is under way");
  kill_all();
}

void SupervisorCore::on(const Tick&) {
  if (phase_ == Phase::kWaiting && now_ >= start_at_) return start_all();
  if (phase_ == Phase::kRunning) judge();
}

void SupervisorCore::start_all() {
  if (attempt_ > 0) ++restarts_;
  WorkerState fresh;
  fresh.started = fresh.heard = now_;
  workers_.assign(options_.blame.role_names.size(), fresh);
  phase_ = Phase::kRunning;
  moved_at_ = now_;
  ready_step_ = attempt_step_ = evaluated_ = Step(-1);
  suspected_at_.reset();
  if (!failures_.empty()) note(failures_.back(), "started again");
  actions_.emplace_back(StartAll{attempt_++});
}

void SupervisorCore::judge() {
  const std::optional<Cause> cause = find_cause(now_, workers_, options_.blame);
  if (cause && !suspected_at_) suspected_at_ = now_;
  if (cause && (cause->certain || now_ >= *suspected_at_ + options_.grace)) return fail(*cause);
  if (!cause && nobody_runs()) return all_ended();
  if (!cause && now_ >= standstill_at()) fail(standstill());
}

void SupervisorCore::all_ended() {
  const bool drained = std::any_of(workers_.begin(), workers_.end(), [](auto& w) { return w.drained; });
  if (drained) finish({RunStatus::kDrained, 0, "stopped before the last step because it was asked to"});
  else finish({RunStatus::kFinished, 0, absl::StrCat("all ", options_.steps.value, " steps are done")});
}

void SupervisorCore::fail(const Cause& cause) {
  if (!cause.bad_input) {
    record(cause);
    for (const Rank rank : cause.ranks) actions_.emplace_back(ShowLog{rank});
  }
  decide_what_follows(cause);
  kill_all();
}

void SupervisorCore::record(const Cause& cause) {
  FailureRecord failure;
  for (const Rank rank : cause.ranks) failure.roles.push_back(name(rank));
  failure.kind = cause.kind;
  failure.step = std::max(attempt_step_, Step(0));
  if (cause.accused) failure.accused = name(*cause.accused);
  failure.seconds_lost = absl::ToDoubleSeconds(now_ - moved_at_);
  note(failure, "noticed");
  failures_.push_back(std::move(failure));
  lost_since_.push_back(moved_at_);
  say(absl::StrCat(names(cause.ranks), " at step ", failures_.back().step.value, ": ", cause.kind));
}

void SupervisorCore::decide_what_follows(const Cause& cause) {
  if (cause.bad_input) {
    verdict_ = Finish{RunStatus::kFailed, kExitBadInput, cause.kind};
  } else if (draining_) {
    verdict_ = Finish{RunStatus::kFailed, kExitFailed,
                      absl::StrCat("failed while stopping: ", names(cause.ranks), ": ", cause.kind)};
  } else if (restarts_in_row_ >= options_.restarts_max) {
    verdict_ = Finish{RunStatus::kFailed, kExitFailed,
                      absl::StrCat("given up after ", restarts_in_row_, " restarts in a row without progress beyond step ",
                                   newest_.value, " (run.restarts_max); the last failure: ", names(cause.ranks), ": ",
                                   cause.kind)};
  } else {
    verdict_.reset();
  }
}

void SupervisorCore::kill_all() {
  if (phase_ == Phase::kStopping) return;
  phase_ = Phase::kStopping;
  stop_deadline_ = now_ + options_.kill_timeout;
  actions_.emplace_back(KillAll{});
}

// In kStopping, after every event.
void SupervisorCore::all_stopped() {
  if (!nobody_runs()) {
    if (now_ >= stop_deadline_) finish({RunStatus::kFailed, kExitFailed, "a worker does not end, even by SIGKILL"});
    return;
  }
  if (verdict_) return finish(*verdict_);
  const int doublings = static_cast<int>(std::min<int64_t>(restarts_in_row_, 30));
  const absl::Duration delay = std::min(options_.backoff * (int64_t{1} << doublings), options_.backoff_max);
  ++restarts_in_row_;
  note(failures_.back(), "all stopped");
  say(absl::StrCat("all workers are stopped; restart ", restarts_in_row_, " of at most ", options_.restarts_max,
                   " in a row from the newest good checkpoint",
                   published_ > Step(0) ? absl::StrCat(" (step ", published_.value, ")") : "", " in ", in_words(delay)));
  phase_ = Phase::kWaiting;
  start_at_ = now_ + delay;
}

void SupervisorCore::finish(Finish finish) {
  phase_ = Phase::kOver;
  actions_.emplace_back(std::move(finish));
}

bool SupervisorCore::does_more_than_steps() const {
  const bool evaluates = is_multiple(attempt_step_, options_.evaluate_every_steps) && evaluated_ < attempt_step_;
  const bool saves = is_multiple(attempt_step_, options_.checkpoint_every_steps);
  const bool ends = attempt_step_ >= options_.steps ||
                    std::any_of(workers_.begin(), workers_.end(), [](auto& w) { return w.finished; });
  return draining_ || !all_ready() || evaluates || saves || ends;
}

absl::Duration SupervisorCore::standstill_at() const {
  const absl::Duration limit = pace_.limit(options_.step_deadline);
  const bool patient = does_more_than_steps() || pace_.median() == absl::ZeroDuration();
  return moved_at_ + limit * (patient ? options_.patience : 1) + options_.standstill_margin;
}

Cause SupervisorCore::standstill() const {
  Cause cause;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].ready) cause.ranks.push_back(Rank(static_cast<int32_t>(i)));
  }
  const std::string since = in_words(now_ - moved_at_);
  if (!cause.ranks.empty()) cause.kind = absl::StrCat("hung: not ready, and nothing happened for ", since);
  else cause.kind = absl::StrCat("hung: no step was committed for ", since);
  cause.certain = true;
  return cause;
}

absl::Duration SupervisorCore::next_deadline() const {
  switch (phase_) {
    case Phase::kWaiting:
      return start_at_;
    case Phase::kStopping:
      return stop_deadline_;
    case Phase::kOver:
      return absl::InfiniteDuration();
    case Phase::kRunning:
      break;
  }
  absl::Duration next = std::min(next_silence(workers_, options_.blame), standstill_at());
  if (suspected_at_) next = std::min(next, *suspected_at_ + options_.grace);
  return next;
}

bool SupervisorCore::nobody_runs() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const WorkerState& w) { return w.running(); });
}

bool SupervisorCore::all_ready() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const WorkerState& w) { return w.ready; });
}

std::string SupervisorCore::names(const std::vector<Rank>& ranks) const {
  if (ranks.empty()) return "the job";
  std::vector<std::string> names;
  for (const Rank rank : ranks) names.push_back(name(rank));
  return absl::StrCat(ranks.size() > 1 ? "workers " : "worker ", absl::StrJoin(names, ", "));
}

void SupervisorCore::note(FailureRecord& failure, const std::string& what) {
  if (failure.timeline.size() >= kFailureMomentsMax) return;
  failure.timeline.push_back({absl::ToDoubleSeconds(now_ - *began_), what});
}

}  // namespace evermoe
