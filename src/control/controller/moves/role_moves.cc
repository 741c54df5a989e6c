#include "control/controller/moves/role_moves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace evermoe {
namespace {

using State = MoveRecord::State;
using Kind = RoleMoves::Action::Kind;

// A view that opens for another reason ends the orders to leave: they are given again.
constexpr int kAttemptsMax = 5;
// Windows begin at the latest after so many median steps where nothing is known of them.
constexpr int kWindowStepsMax = 64;
// All have to hear of it in time to stop at one state, and to give away the one before: at least so
// many steps ahead, where they are short more (ControllerOptions::leave_ahead).
constexpr int kStepsAhead = 3;

}  // namespace

const char* to_string(MoveRecord::State state) {
  constexpr const char* kNames[] = {"preparing", "copying", "leaving",
                                    "switching", "done",    "called off"};
  return kNames[static_cast<int>(state)];
}

absl::Duration pause_of(const MoveRecord& record) {
  if (std::max(record.stopped, record.resumed) == absl::InfiniteDuration())
    return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), record.resumed - record.stopped - record.usual_step);
}

void RoleMoves::begin(absl::Duration now, std::vector<RoleMove> moves, const RoleTable& roles,
                      std::string cause) {
  CHECK(!is_under_way() && !moves.empty());
  MoveRecord record;
  for (const RoleMove& move : moves) {
    record.roles.push_back(topology_.name_of(move.rank));
    record.from.push_back(roles[move.rank].node);
    record.to.push_back(move.node);
  }
  record.cause = std::move(cause);
  record.asked = now;
  records_.push_back(std::move(record));
  present_.emplace();
  present_->moves = std::move(moves);
  present_->until = now + options_.start_max;
  ++changes_;
}

void RoleMoves::set(State state) {
  record().state = state;
  ++changes_;
}

std::string RoleMoves::names() const {
  std::string text = absl::StrCat(record().roles.size() == 1 ? "role " : "roles ");
  for (size_t i = 0; i < record().roles.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", record().roles[i], " to node ",
                    record().to[i].value);
  }
  return text;
}

absl::Duration RoleMoves::deadline() const {
  if (!present_ || is_switching()) return absl::InfiniteDuration();
  return present_->until;
}

RoleMoves::Action RoleMoves::next(absl::Duration now, const JobState& job) {
  switch (record().state) {
    case State::kPreparing: return prepare(now, job);
    case State::kCopying: return copy(now, job);
    case State::kLeaving: return follow(now, job);
    default: return {};
  }
}

std::string RoleMoves::find_trouble(const JobState& job) const {
  if (!present_->trouble.empty()) return present_->trouble;
  for (const RoleMove& move : present_->moves) {
    if (!job.nodes.is_up(move.node)) return absl::StrCat("node ", move.node.value, " is lost");
  }
  return "";
}

template <typename Done>
bool RoleMoves::have_all(const Done& done) const {
  return std::ranges::all_of(present_->moves,
                             [&](const RoleMove& move) { return done.contains(move.rank); });
}

RoleMoves::Action RoleMoves::prepare(absl::Duration now, const JobState& job) {
  if (const std::string trouble = find_trouble(job); !trouble.empty()) return call_off(trouble);
  if (now >= present_->until) return call_off("no process was warm in time");
  Action action;
  const std::map<Node, KeepStandbys> lacking = lacking_standbys(job);
  for (const auto& [node, order] : lacking) {
    if (std::exchange(present_->wanted[node], order.count) == order.count) continue;
    action.standbys.push_back(order);
    action.kind = Kind::kKeepStandbys;
  }
  if (!lacking.empty()) return action;
  return job.is_calm ? await_joiners(now, job) : Action{};
}

RoleMoves::Action RoleMoves::await_joiners(absl::Duration now, const JobState& job) {
  if (present_->asked_in != job.view) {
    if (++present_->attempts > kAttemptsMax)
      return call_off("it was begun too often: each time something came in between");
    record().warm = std::min(record().warm, now);
    present_->asked_in = job.view;
    present_->joiners.clear();
    return {.kind = Kind::kPrepare, .roles = present_->moves};
  }
  if (!have_all(present_->joiners)) return {};
  present_->given.clear();
  present_->handed.clear();
  present_->until = now + options_.copying_max;
  set(State::kCopying);
  return {.kind = Kind::kLeave,
          .roles = present_->moves,
          .joiners = present_->joiners,
          .news = absl::StrCat(names(), ": a process is warm there; copies go to it")};
}

std::optional<RoleMoves::Action> RoleMoves::check(absl::Duration now, const JobState& job) {
  if (job.view != present_->asked_in) {
    prepare_again(now, "");
    return prepare(now, job);
  }
  if (std::exchange(present_->has_lost_joiner, false) && present_->trouble.empty())
    return prepare_again(now, "a process that was warm has ended");
  if (const auto lacking = lacking_standbys(job); !lacking.empty()) {
    return prepare_again(now, absl::StrCat("no process is warm on node ",
                                           lacking.begin()->first.value, " any more"));
  }
  if (const std::string trouble = find_trouble(job); !trouble.empty()) return call_off(trouble);
  return std::nullopt;
}

RoleMoves::Action RoleMoves::copy(absl::Duration now, const JobState& job) {
  if (auto other = check(now, job)) return *std::move(other);
  if (!have_all(present_->given) && now < present_->until) return {};
  return leave(now, job);
}

absl::Duration RoleMoves::leave_max(const JobState& job) const {
  const int period = std::max(options_.strategy.captures.period, kWindowStepsMax);
  return std::max(options_.step_max, 2 * period * job.median_step);
}

int RoleMoves::steps_ahead(const JobState& job) const {
  const int steps_min = std::min(kStepsAhead << present_->late, kWindowStepsMax);
  if (job.median_step <= absl::ZeroDuration()) return steps_min;
  const absl::Duration ahead = options_.leave_ahead * (1 << present_->late);
  const double steps = std::ceil(absl::FDivDuration(ahead, job.median_step));
  return std::clamp(static_cast<int>(std::min<double>(steps, kWindowStepsMax)), steps_min,
                    kWindowStepsMax);
}

RoleMoves::Action RoleMoves::leave(absl::Duration now, const JobState& job) {
  record().copied = now;
  present_->until = now + leave_max(job);
  present_->stop_at = Step(job.newest.value + steps_ahead(job));
  set(State::kLeaving);
  return {.kind = Kind::kLeave,
          .roles = present_->moves,
          .joiners = present_->joiners,
          .stop_at = present_->stop_at,
          .news = absl::StrCat(names(), ": handed over at step ", present_->stop_at.value)};
}

RoleMoves::Action RoleMoves::follow(absl::Duration now, const JobState& job) {
  if (auto other = check(now, job)) return *std::move(other);
  if (std::exchange(present_->is_late, false) && !have_all(present_->handed)) {
    ++present_->late;
    return prepare_again(now, "one heard too late where to stop");
  }
  if (!have_all(present_->handed) && now < present_->until) return {};
  if (!have_all(present_->handed))
    return call_off("not all roles had handed over their states in time");
  record().handed_over = now;
  record().stopped = last_commit_;
  record().usual_step = job.median_step;
  for (const auto& [rank, handed] : present_->handed) {
    record().bytes += handed.bytes;
    record().step = std::max(record().step, handed.state);
  }
  switched_from_ = job.view;
  connected_in_ = View(0);
  set(State::kSwitching);
  return {.kind = Kind::kSwitch, .roles = present_->moves, .news = names()};
}

RoleMoves::Action RoleMoves::prepare_again(absl::Duration now, const std::string& why) {
  set(State::kPreparing);
  present_->until = now + options_.start_max;
  present_->wanted.clear();
  present_->asked_in = View(0);
  return {.kind = Kind::kStay,
          .roles = present_->moves,
          .news = absl::StrCat(names(), ": ", why, "; once more")};
}

std::map<Node, KeepStandbys> RoleMoves::lacking_standbys(const JobState& job) const {
  std::map<Node, KeepStandbys> needed;
  for (const RoleMove& move : present_->moves) {
    KeepStandbys& order = needed[move.node];
    order.node = move.node;
    ++order.count;
    order.roles.push_back(move.rank);
  }
  std::erase_if(needed,
                [&](const auto& one) { return job.standbys.warm(one.first) >= one.second.count; });
  return needed;
}

RoleMoves::Action RoleMoves::call_off(const std::string& why) {
  Action action{.kind = Kind::kStay,
                .news = absl::StrCat("the move of ", names(), " is called off: ", why)};
  // The process that waits for a role that is lost is the best to take it.
  action.keeps_joiners = present_->has_lost_role;
  if (present_->asked_in != View(0)) action.roles = present_->moves;
  record().reason = why;
  set(State::kCalledOff);
  present_.reset();
  return action;
}

void RoleMoves::on_ready(const JoinerReady& ready) {
  if (!present_ || record().state != State::kPreparing) return;
  if (ready.joiner.since > present_->asked_in) present_->joiners[ready.rank] = ready.joiner;
}

void RoleMoves::on_copies_given(const CopiesGiven& given) {
  if (present_ && record().state == State::kCopying && given.view == present_->asked_in)
    present_->given.insert(given.rank);
}

void RoleMoves::on_handed_over(const HandedOver& handed) {
  if (!present_ || record().state != State::kLeaving || handed.view != present_->asked_in) return;
  if (handed.state < present_->stop_at) return;  // by an order that was called off
  present_->handed[handed.rank] = handed;
}

// One alone that is late stops later; others would wait for it where they were to stop.
void RoleMoves::on_cannot_leave(const CannotLeave& told) {
  if (!present_ || record().state != State::kLeaving || told.view != present_->asked_in) return;
  if (told.why == CannotLeave::Why::kTooLate) {
    present_->is_late = present_->moves.size() > 1;
  } else if (present_->trouble.empty()) {
    present_->trouble =
        absl::StrCat("what role ", topology_.name_of(told.rank), " hands over does not arrive");
  }
}

void RoleMoves::on_standby_failure(Node node, const std::string& how) {
  if (!present_ || is_switching()) return;
  // It may be the one that waits for a role.
  const bool is_of_it =
      std::ranges::any_of(present_->moves, [&](const RoleMove& move) { return move.node == node; });
  const bool has_waited = is_of_it && present_->asked_in != View(0);
  if (has_waited) present_->has_lost_joiner = true;
  if (present_->wanted.erase(node) == 0 && !has_waited) return;
  if (++present_->failures < StandbyBook::kFailuresMax) return;
  present_->trouble =
      absl::StrCat("the processes that warm up on node ", node.value, " end: ", how);
}

void RoleMoves::on_loss(Rank rank) {
  if (!present_ || is_switching() || !present_->trouble.empty()) return;
  const bool is_of_it =
      std::ranges::any_of(present_->moves, [&](const RoleMove& move) { return move.rank == rank; });
  if (!is_of_it) return;
  present_->trouble = absl::StrCat("role ", topology_.name_of(rank), " is lost");
  present_->has_lost_role = true;
}

void RoleMoves::on_plan(absl::Duration now) {
  if (!is_switching()) return;
  record().planned = now;
  record().restored = absl::InfiniteDuration();
  ++changes_;
}

void RoleMoves::on_restored(absl::Duration now, Rank rank) {
  if (!is_switching()) return;
  const bool is_of_it =
      std::ranges::any_of(present_->moves, [&](const RoleMove& move) { return move.rank == rank; });
  if (!is_of_it) return;
  record().restored = now;
  ++changes_;
}

void RoleMoves::on_connected(const Connected& connected) {
  const bool has_switched = !records_.empty() && (is_switching() || record().state == State::kDone);
  if (!has_switched || connected.view <= switched_from_) return;
  if (connected_in_ == View(0)) connected_in_ = connected.view;
  if (connected.view != connected_in_) return;
  record().connections_opened += connected.connections;
  ++changes_;
}

void RoleMoves::on_end() {
  if (present_ && !is_switching()) call_off("the job ended before it was done");
}

std::string RoleMoves::on_commit(absl::Duration now, const RoleTable& roles) {
  last_commit_ = now;
  if (!is_switching()) return "";
  record().resumed = now;
  // Who has taken a role has its state by then, though word of that may come later.
  record().restored = std::min(record().restored, now);
  for (size_t i = 0; i < present_->moves.size(); ++i)
    record().to[i] = roles[present_->moves[i].rank].node;
  set(State::kDone);
  present_.reset();
  return absl::StrFormat(
      "%s: done at step %d; %.1f MB; the job stood for %.2f s", absl::StrCat("moved ", names()),
      record().step.value, static_cast<double>(record().bytes) / 1e6,
      absl::ToDoubleSeconds(std::max(absl::ZeroDuration(),
                                     record().resumed - record().stopped - record().usual_step)));
}

}  // namespace evermoe
