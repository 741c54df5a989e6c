#include "control/controller/controller_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

ControllerCore::ControllerCore(Topology topology, ControllerOptions options, absl::Duration now)
    : topology_(std::move(topology)),
      options_(options),
      now_(now),
      role_states_(static_cast<size_t>(topology_.world_size())),
      adoption_ends_(now + options.adoption),
      stage_epochs_(static_cast<size_t>(topology_.stages())),
      pace_(options.medians_max) {}

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
  absl::Duration next = is_adopting_ ? adoption_ends_ : absl::InfiniteDuration();
  for (const RoleState& role_state : role_states_) {
    next = std::min(next, role_state.deadline);
  }
  if (is_open_ && suspicion_) next = std::min(next, suspicion_->due);
  const bool is_backing_off =
      std::any_of(role_states_.begin(), role_states_.end(), [](const RoleState& role_state) {
        return role_state.phase == RoleState::Phase::kNone && !role_state.released;
      });
  if (is_backing_off && start_at_ > now_) next = std::min(next, start_at_);
  next = std::min(next, pace_deadline());
  return next;
}

bool ControllerCore::is_present(Rank rank, View since) const {
  const RoleState& role_state = role_states_[static_cast<size_t>(rank.value)];
  return role_state.phase == RoleState::Phase::kJoined && role_state.since == since;
}

bool ControllerCore::all_joined() const {
  return std::all_of(role_states_.begin(), role_states_.end(), [](const RoleState& role_state) {
    return role_state.phase == RoleState::Phase::kJoined;
  });
}

RecoveryRecord* ControllerCore::present_recovery() {
  return recoveries_.empty() || recoveries_.back().is_over() ? nullptr : &recoveries_.back();
}

// ---- decisions

void ControllerCore::open_next_view(const std::string& why) {
  view_ = View(std::max(view_, options_.views_after).value + 1);
  is_open_ = false;
  suspicion_.reset();
  was_commit_ = false;
  probe_due_.reset();
  actions_.push_back(JobEvent{absl::StrCat("view ", view_.value, ": ", why)});
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = role_state(Rank(r));
    member.report.reset();
    if (member.phase != RoleState::Phase::kJoined) continue;
    member.deadline = now_ + options_.report_max;
    actions_.push_back(SendOrder{Rank(r), member.since, StopOrder{view_, number_of_recovery()}});
  }
}

void ControllerCore::reconsider() {
  if (is_adopting_) {
    const bool complete = all_joined();
    const bool expects_nobody =
        !options_.takes_over && static_cast<int>(agents_.size()) >= options_.nodes;
    if (!complete && !expects_nobody && now_ < adoption_ends_) return;
    is_adopting_ = false;
    if (view_ > View(0)) lose_the_absent();
    moved_ = now_;
    if (!(complete && is_open_))
      open_next_view(view_ == View(0) ? "the job begins" : "a new controller takes over");
  }
  start_missing();
  if (is_open_) return release_if_finished();
  const bool ready =
      std::all_of(role_states_.begin(), role_states_.end(), [](const RoleState& role_state) {
        return role_state.phase == RoleState::Phase::kJoined && role_state.report.has_value();
      });
  if (ready) send_plan();
}

// Roles that were lost while no controller looked.
void ControllerCore::lose_the_absent() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    if (role_state(Rank(r)).phase != RoleState::Phase::kNone) continue;
    note_loss(Rank(r), "gone when the new controller came");
  }
}

void ControllerCore::send_plan() {
  PlanInputs inputs;
  inputs.view = view_;
  inputs.topology = &topology_;
  const CopyHolders holders = this->holders();
  inputs.holders = holders.holders_of;
  inputs.former_holders = former_holders_;
  inputs.is_protected = options_.is_protected;
  for (const RoleState& role_state : role_states_) {
    inputs.table.push_back({role_state.address, role_state.since});
    inputs.reports.push_back(*role_state.report);
  }
  inputs.restart_reason = std::exchange(restart_reason_, "");
  Plan plan = make_plan(inputs);
  note_unseen_losses(plan);
  plan.recovery = number_of_recovery();
  if (plan.restart_all && newest_ > Commit(-1) && !options_.restart_all_allowed) {
    return end(false, absl::StrCat("cannot go on exactly: ", absl::StrJoin(plan.reasons, "; ")));
  }
  if (plan.restart_all) {
    if (!options_.is_protected && has_planned_ && planned_failures_ == failures_counted_) {
      count_failure(absl::StrJoin(plan.reasons, "; "));  // nobody was lost
      if (has_ended_) return;
    }
    newest_ = Commit(-1);
    restarted_ = view_;
  }
  has_planned_ = true;
  planned_failures_ = failures_counted_;
  for (const int stage : plan.rolled_back) stage_epochs_[static_cast<size_t>(stage)] = view_;
  if (plan.restart_all) std::fill(stage_epochs_.begin(), stage_epochs_.end(), view_);
  follow_recovery(plan);
  for (const std::string& reason : plan.reasons)
    actions_.push_back(JobEvent{absl::StrCat("view ", view_.value, ": ", reason)});
  if (holders_told_ != holders.reason)
    actions_.push_back(JobEvent{absl::StrCat("view ", view_.value, ": ", holders.reason)});
  holders_told_ = holders.reason;
  is_open_ = true;
  moved_ = now_;
  if (std::exchange(is_probing_, false))
    probe_due_ = now_ + std::max(options_.probe_min, pace_.median());
  former_holders_ = plan.holders;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = role_state(Rank(r));
    const int stage = topology_.role_of(Rank(r)).stage;
    if (plan.restart_all || stage_epochs_[static_cast<size_t>(stage)] == view_)
      member.finished = false;
    member.failures_seen = failures_counted_;
    actions_.push_back(SendOrder{Rank(r), member.since, plan});
  }
}

void ControllerCore::release_if_finished() {
  const bool all =
      std::all_of(role_states_.begin(), role_states_.end(), [](const RoleState& role_state) {
        return role_state.phase == RoleState::Phase::kJoined && role_state.finished &&
               !role_state.released;
      });
  if (!all) return;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    role_state(Rank(r)).released = true;
    actions_.push_back(SendOrder{Rank(r), role_state(Rank(r)).since, ReleaseOrder{}});
  }
  if (RecoveryRecord* const record = present_recovery(); record != nullptr) record->resumed = now_;
}

void ControllerCore::end(bool ok, std::string reason, bool bad_input) {
  has_ended_ = true;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& left = role_states_[static_cast<size_t>(r)];
    if (left.phase != RoleState::Phase::kNone)
      actions_.push_back(KillWorker{left.node, Rank(r), left.since, "the job ends"});
  }
  actions_.push_back(EndJob{ok, bad_input, std::move(reason)});
}

}  // namespace evermoe
