// What a controller remembers of a recovery and tells of it.

#include "cluster/controller_core.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace evermoe {

// Told once for each stage: there may be thousands of ranks.
void ControllerCore::note_stage_done(std::set<Rank>& waiting, Rank rank, const std::string& what) {
  if (waiting.erase(rank) == 0) return;
  const int stage = topology_.role_of(rank).stage;
  const std::vector<Rank> group = topology_.stage_group(stage);
  if (std::any_of(group.begin(), group.end(), [&](Rank one) { return waiting.contains(one); })) return;
  actions_.push_back(Tell{absl::StrCat("view ", view_.value, ": stage ", stage, " ", what)});
}

int ControllerCore::number_of_recovery() { return present_recovery() == nullptr ? 0 : static_cast<int>(recoveries_.size()); }

// Found out by the former controller, which did not live to tell: its replacements are what is left of them.
void ControllerCore::note_unseen_losses(const Plan& plan) {
  if (present_recovery() != nullptr || plan.newest < Commit(0)) return;
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) {
      if (player(rank).report->stage_epoch == View(0)) note_loss(rank, "replaced when the new controller came");
    }
  }
}

void ControllerCore::follow_recovery(const Plan& plan) {
  without_state_.clear();
  behind_.clear();
  verified_ = 0;
  RecoveryRecord* const record = present_recovery();
  if (record == nullptr) return;
  record->planned = now_;
  record->views.push_back(view_);
  record->restarted_all = record->restarted_all || plan.restart_all;
  std::set<int> stages(record->rolled_back_stages.begin(), record->rolled_back_stages.end());
  stages.insert(plan.rolled_back.begin(), plan.rolled_back.end());
  record->rolled_back_stages.assign(stages.begin(), stages.end());
  record->reasons.insert(record->reasons.end(), plan.reasons.begin(), plan.reasons.end());
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) without_state_.insert(rank);
  }
  behind_ = without_state_;
}

}  // namespace evermoe
