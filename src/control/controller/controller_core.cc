#include "control/controller/controller_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

using Phase = RoleState::Phase;

ControllerCore::ControllerCore(Topology topology, ControllerOptions options, absl::Duration now)
    : topology_(std::move(topology)),
      options_(options),
      now_(now),
      roles_(topology_.world_size()),
      nodes_(options.silence_max / 2),
      view_(topology_, options_),
      limits_(options_),
      restarts_(topology_.world_size(), options_),
      watch_(options_),
      journal_(topology_),
      adoption_ends_(now + options.adoption),
      adoption_moved_(now) {}

std::vector<ControllerAction> ControllerCore::on(absl::Duration now, const ControllerEvent& event) {
  now_ = std::max(now_, now);
  actions_.clear();
  if (has_ended_) return {};
  std::visit([this](const auto& e) { handle(e); }, event);
  if (!has_ended_) check_deadlines();
  if (!has_ended_) reconsider();
  return std::exchange(actions_, {});
}

absl::Duration ControllerCore::next_deadline() const {
  absl::Duration next = is_adopting_ ? adoption_deadline() : absl::InfiniteDuration();
  next = std::min(next, roles_.next_deadline());
  if (is_open() && suspicion_) next = std::min(next, suspicion_->due());
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const bool is_missing = roles_[Rank(r)].phase == Phase::kNone && !roles_[Rank(r)].released;
    if (is_missing && start_at(Rank(r)) > now_) next = std::min(next, start_at(Rank(r)));
  }
  return std::min(next, pace_deadline());
}

void ControllerCore::tell_in_view(const std::string& text) {
  tell(absl::StrCat("view ", view().value, ": ", text));
}

// ---- time

void ControllerCore::check_deadlines() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& late = roles_[Rank(r)];
    const bool silent = is_silent(late);
    if (!silent && now_ < late.deadline) continue;
    if (!silent && is_out_of_sight(late)) {
      late.deadline = now_ + options_.silence_max;
      continue;
    }
    const std::string why = silent ? absl::StrCat("hung: no sign of life for ",
                                                  absl::FormatDuration(options_.silence_max))
                            : late.phase == Phase::kStarting ? "did not come up in time"
                                                             : "did not report in time";
    kill_and_lose(Rank(r), why, why);
    if (has_ended_) return;
  }
  if (is_open() && suspicion_ && now_ >= suspicion_->due()) {
    follow_suspicion();
    if (!is_open()) return;
  }
  if (!has_ended_) watch_pace();
}

// The line to its node may be broken or slow: only what its agent says, and it does not, tells of a
// worker.
bool ControllerCore::is_silent(const RoleState& role) const {
  const auto agent = nodes_.heard(role.node);
  return role.phase == Phase::kJoined && agent && *agent >= role.heard + options_.silence_max;
}

// What it reports cannot be heard now: the verdict on its node comes first.
bool ControllerCore::is_out_of_sight(const RoleState& role) const {
  return role.phase == Phase::kJoined && nodes_.is_up(role.node) &&
         nodes_.is_in_doubt(role.node, now_);
}

// Nobody can be heard, so nothing is known of the job.
bool ControllerCore::is_deaf() const {
  const auto& roles = roles_.all();
  return std::all_of(roles.begin(), roles.end(),
                     [this](const RoleState& role) { return is_out_of_sight(role); });
}

void ControllerCore::follow_suspicion() {
  const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
  const std::optional<Rank> accused = suspicion.accused();
  if (!accused) return open_next_view(suspicion.what());
  kill_and_lose(*accused, suspicion.what(), absl::StrCat("accused: ", suspicion.what()));
}

absl::Duration ControllerCore::pace_deadline() const {
  if (!is_open() || has_ended_ || is_adopting_) return absl::InfiniteDuration();
  return watch_.deadline(progress_.newest(), journal_.is_loading());
}

void ControllerCore::watch_pace() {
  if (now_ < pace_deadline()) return;
  if (is_deaf()) return watch_.on_milestone(now_);
  if (!watch_.is_probe()) {
    watch_.probe();
    return open_next_view(
        absl::StrCat("nothing has happened for ", absl::FormatDuration(now_ - watch_.moved()),
                     "; a step takes ", absl::FormatDuration(watch_.median_step())));
  }
  watch_.end_probe();
  const std::vector<Rank> still = who_stands_still(topology_, roles_, view());
  if (still.empty()) {
    const std::string why = "the job stands still though all its workers move";
    view_.restart_next(why);
    return open_next_view(why);
  }
  for (const Rank rank : still) {
    const std::string why = "hung: its stage does not move";
    kill_and_lose(rank, why, why, /*is_same_loss=*/rank != still.front());
    if (has_ended_) return;
  }
}

// ---- views

void ControllerCore::open_next_view(const std::string& why) {
  view_.open_next();
  suspicion_.reset();
  watch_.on_stop();
  tell_in_view(why);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = roles_[Rank(r)];
    member.report.reset();
    if (member.phase != Phase::kJoined) continue;
    member.deadline = now_ + options_.report_max;
    actions_.push_back(SendOrder{Rank(r), member.since, StopOrder{view(), journal_.number()}});
  }
}

void ControllerCore::reconsider() {
  if (is_adopting_ && !end_adoption()) return;
  start_missing();
  if (is_open()) return release_if_finished();
  if (roles_.have_all_reported()) send_plan();
}

// Who is absent may only be cut off from here: a view goes on as long as all its members live, and
// when one dies others miss it and say so. A view without commits for too long stands still for
// another reason.
absl::Duration ControllerCore::adoption_deadline() const {
  const bool may_be_cut_off = nodes_.known() < options_.nodes + options_.spares;
  if (!is_open() || has_heard_trouble_ || !may_be_cut_off) return adoption_ends_;
  return std::max(adoption_ends_, adoption_moved_ + options_.step_max);
}

bool ControllerCore::end_adoption() {
  const bool complete = roles_.are_all_joined();
  const bool expects_nobody = !options_.takes_over && nodes_.known() >= options_.nodes;
  if (!complete && !expects_nobody && now_ < adoption_deadline()) return false;
  is_adopting_ = false;
  if (view() > View(0)) lose_the_absent();
  watch_.begin(now_);
  if (!(complete && is_open()))
    open_next_view(view() == View(0) ? "the job begins" : "a new controller takes over");
  return true;
}

void ControllerCore::start_missing() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& missing = roles_[Rank(r)];
    if (missing.phase != Phase::kNone || missing.released) continue;
    if (missing.since != View(0) && now_ < start_at(Rank(r))) continue;
    const auto node = node_for(Rank(r), roles_, nodes_, restarts_, options_.nodes, now_);
    if (!node) continue;  // waits for an agent
    if (restarts_.avoids(Rank(r), missing.node) && *node != missing.node)
      tell(absl::StrCat("worker ", name_of(Rank(r)), " moves to node ", node->value, ": it ",
                        restarts_.reason(now_, Rank(r))));
    restarts_.on_start(now_, Rank(r), *node);
    roles_.start(Rank(r), *node, std::max(view(), View(1)), now_ + options_.start_max);
    missing.failures_seen = limits_.failures();
    actions_.push_back(StartWorker{*node, Rank(r), missing.since});
  }
}

// The end of its back-off.
absl::Duration ControllerCore::start_at(Rank rank) const {
  return std::max(limits_.start_at(), restarts_.start_at(rank));
}

void ControllerCore::send_plan() {
  const CopyHolders holders = this->holders();
  Plan plan = view_.plan(roles_, holders);
  note_unseen_losses(plan);
  plan.recovery = journal_.number();
  if (!may_send(plan)) return;
  limits_.on_plan();
  journal_.on_plan(now_, plan);
  watch_.on_plan(now_);
  for (const std::string& reason : plan.reasons) tell_in_view(reason);
  if (std::exchange(holders_told_, holders.reason) != holders.reason) tell_in_view(holders.reason);
  view_.open(plan);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = roles_[Rank(r)];
    if (view_.stage_epoch(Rank(r)) == view()) member.finished = false;
    member.failures_seen = limits_.failures();
    actions_.push_back(SendOrder{Rank(r), member.since, plan});
  }
}

// False: the job has ended instead.
bool ControllerCore::may_send(const Plan& plan) {
  if (!plan.restart_all) return true;
  const std::string reasons = absl::StrJoin(plan.reasons, "; ");
  if (progress_.newest() > Commit(-1) && !options_.restart_all_allowed) {
    end(false, absl::StrCat("cannot go on exactly: ", reasons));
    return false;
  }
  if (!options_.is_protected && limits_.is_unexplained()) count_failure(reasons);
  if (has_ended_) return false;
  progress_.on_restart(view());
  return true;
}

void ControllerCore::release_if_finished() {
  if (!roles_.have_all_finished()) return;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    roles_[Rank(r)].released = true;
    actions_.push_back(SendOrder{Rank(r), roles_[Rank(r)].since, ReleaseOrder{}});
  }
  journal_.on_resumed(now_);
}

// After the release nothing can be lost any more: everything is on disk.
void ControllerCore::end_if_all_gone() {
  if (roles_.are_all_gone()) end(true, "finished");
}

void ControllerCore::end(bool ok, std::string reason, bool bad_input) {
  has_ended_ = true;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& left = roles_[Rank(r)];
    if (left.phase != Phase::kNone)
      actions_.push_back(KillWorker{left.node, Rank(r), left.since, "the job ends"});
  }
  actions_.push_back(EndJob{ok, bad_input, std::move(reason)});
}

}  // namespace evermoe
