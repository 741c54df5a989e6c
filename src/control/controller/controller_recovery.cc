// What a controller remembers of a recovery and tells of it.

#include "control/controller/controller_core.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

constexpr absl::Duration kTellEvery = absl::Seconds(2);

}  // namespace

// One of an older view still tells how far its rank is.
void ControllerCore::hear(const Milestone& milestone) {
  const Rank rank = milestone.rank;
  moved_ = now_;
  was_commit_ = false;
  if (milestone.kind == Milestone::Kind::kRestored) without_state_.erase(rank);
  RecoveryRecord* const record = present_recovery();
  if (record == nullptr) return;
  record->recomputed_steps = std::max(record->recomputed_steps, milestone.recomputed_steps);
  switch (milestone.kind) {
    case Milestone::Kind::kConnected: return;
    case Milestone::Kind::kRestored:
      record->restored = now_;
      for (const std::string& source : milestone.sources)
        record->sources.push_back(absl::StrCat(name_of(rank), ": ", source));
      return note_stage_done(untold_state_, rank, "has a state again");
    case Milestone::Kind::kStepAgain: return tell_step_again(milestone);
    case Milestone::Kind::kCaughtUp:
      record->caught_up = now_;
      return note_stage_done(
          behind_, rank,
          absl::StrCat("has caught up: ", record->recomputed_steps, " steps run again",
                       verified_ == 0 ? ""
                                      : absl::StrCat("; ", verified_,
                                                     verified_ == 1 ? " survivor" : " survivors",
                                                     " verified bit-identical")));
    case Milestone::Kind::kVerified:
      record->verified = now_;
      ++verified_;
      return;
  }
}

// Only where it takes long enough for somebody to wonder.
void ControllerCore::tell_step_again(const Milestone& milestone) {
  const Role role = topology_.role_of(milestone.rank);
  if (role.lane != 0 || now_ < told_again_ + kTellEvery ||
      now_ < present_recovery()->planned + kTellEvery)
    return;
  told_again_ = now_;
  actions_.push_back(
      JobEvent{absl::StrCat("view ", view_.value, ": stage ", role.stage, " catches up, ",
                            milestone.recomputed_steps, " steps so far")});
}

// Told once for each stage: there may be thousands of ranks.
void ControllerCore::note_stage_done(std::set<Rank>& waiting, Rank rank, const std::string& what) {
  if (waiting.erase(rank) == 0) return;
  const int stage = topology_.role_of(rank).stage;
  const std::vector<Rank> group = topology_.stage_group(stage);
  if (std::any_of(group.begin(), group.end(), [&](Rank one) { return waiting.contains(one); }))
    return;
  actions_.push_back(JobEvent{absl::StrCat("view ", view_.value, ": stage ", stage, " ", what)});
}

int ControllerCore::number_of_recovery() {
  return present_recovery() == nullptr ? 0 : static_cast<int>(recoveries_.size());
}

// Found out by the former controller, which did not live to tell: its replacements are what is left
// of them.
void ControllerCore::note_unseen_losses(const Plan& plan) {
  if (present_recovery() != nullptr || plan.newest < Commit(0)) return;
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) {
      if (role_state(rank).report->stage_epoch == View(0))
        note_loss(rank, "replaced when the new controller came");
    }
  }
}

void ControllerCore::follow_recovery(const Plan& plan) {
  if (plan.restart_all) {
    behind_.clear();
    for (int32_t r = 0; r < topology_.world_size(); ++r) without_state_.insert(Rank(r));
  }
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) without_state_.insert(rank);
  }
  untold_state_ = without_state_;
  verified_ = 0;
  RecoveryRecord* const record = present_recovery();
  if (record == nullptr) return;
  record->planned = now_;
  record->views.push_back(view_);
  record->restarted_all = record->restarted_all || plan.restart_all;
  record->restarts += plan.restart_all ? 1 : 0;
  std::set<int> stages(record->rolled_back_stages.begin(), record->rolled_back_stages.end());
  stages.insert(plan.rolled_back.begin(), plan.rolled_back.end());
  record->rolled_back_stages.assign(stages.begin(), stages.end());
  record->reasons.insert(record->reasons.end(), plan.reasons.begin(), plan.reasons.end());
  behind_.insert(without_state_.begin(), without_state_.end());
}

}  // namespace evermoe
