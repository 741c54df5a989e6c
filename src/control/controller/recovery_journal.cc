#include "control/controller/recovery_journal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

constexpr absl::Duration kTellEvery = absl::Seconds(2);

// Of the timeline.
bool is_moment(Milestone::Kind kind) {
  using Kind = Milestone::Kind;
  return kind == Kind::kRestored || kind == Kind::kCaughtUp || kind == Kind::kVerified;
}

}  // namespace

RecoveryRecord* RecoveryJournal::present() {
  return records_.empty() || records_.back().is_over() ? nullptr : &records_.back();
}

int64_t RecoveryJournal::incident() const {
  return records_.empty() || records_.back().is_over() ? 0 : records_.back().incident;
}

void RecoveryJournal::on_loss(absl::Duration now, Commit newest, Rank rank,
                              const std::string& how) {
  if (present() == nullptr) {
    records_.emplace_back();
    records_.back().incident = incidents_after_ + std::ssize(records_);
    records_.back().noticed = now;
    records_.back().step = step_of(std::max(newest, Commit(0)));
  }
  ++changes_;
  const std::string name = topology_.name_of(rank);
  records_.back().roles.push_back(name);
  records_.back().causes.push_back(absl::StrCat(name, ": ", how));
}

bool RecoveryJournal::on_standby(Rank rank) {
  RecoveryRecord* const record = present();
  if (record == nullptr) return false;
  const std::string name = topology_.name_of(rank);
  const bool was_lost = std::ranges::count(record->roles, name) > 0;
  if (!was_lost || std::ranges::count(record->standby_roles, name) > 0) return false;
  record->standby_roles.push_back(name);
  ++changes_;
  return true;
}

void RecoveryJournal::on_plan(absl::Duration now, const Plan& plan) {
  if (plan.restart_all) {
    behind_.clear();
    restart_view_ = plan.view;
    for (int32_t r = 0; r < topology_.world_size(); ++r) without_state_.insert(Rank(r));
  }
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) without_state_.insert(rank);
  }
  untold_state_ = without_state_;
  verified_ = 0;
  RecoveryRecord* const record = present();
  if (record == nullptr) return;
  ++changes_;
  record->planned = now;
  record->views.push_back(plan.view);
  record->restarted_all = record->restarted_all || plan.restart_all;
  record->restarts += plan.restart_all ? 1 : 0;
  std::set<int> stages(record->rolled_back_stages.begin(), record->rolled_back_stages.end());
  stages.insert(plan.rolled_back.begin(), plan.rolled_back.end());
  record->rolled_back_stages.assign(stages.begin(), stages.end());
  record->reasons.insert(record->reasons.end(), plan.reasons.begin(), plan.reasons.end());
  behind_.insert(without_state_.begin(), without_state_.end());
}

std::optional<std::string> RecoveryJournal::on_milestone(absl::Duration now,
                                                         const Milestone& milestone) {
  const Rank rank = milestone.rank;
  if (milestone.kind == Milestone::Kind::kRestored) without_state_.erase(rank);
  RecoveryRecord* const record = present();
  if (record == nullptr) return std::nullopt;
  const bool is_more_work = note_work_again(milestone, *record);
  changes_ += is_more_work || is_moment(milestone.kind) ? 1 : 0;
  switch (milestone.kind) {
    case Milestone::Kind::kOpened:
    case Milestone::Kind::kCopying: return std::nullopt;
    case Milestone::Kind::kRestored:
      record->restored = now;
      if (milestone.view == restart_view_) record->restarted_from = milestone.step;
      for (const std::string& source : milestone.sources)
        record->sources.push_back(absl::StrCat(topology_.name_of(rank), ": ", source));
      return tell_stage_done(untold_state_, rank, "has a state again");
    case Milestone::Kind::kStepAgain: return tell_step_again(now, milestone);
    case Milestone::Kind::kCaughtUp:
      record->caught_up = now;
      return tell_stage_done(
          behind_, rank,
          absl::StrCat("has caught up: ", record->recomputed_steps, " steps run again",
                       verified_ == 0 ? ""
                                      : absl::StrCat("; ", verified_,
                                                     verified_ == 1 ? " survivor" : " survivors",
                                                     " verified bit-identical")));
    case Milestone::Kind::kVerified:
      record->verified = now;
      ++verified_;
      return std::nullopt;
  }
  return std::nullopt;
}

void RecoveryJournal::on_resumed(absl::Duration now) {
  RecoveryRecord* const record = present();
  if (record == nullptr) return;
  record->resumed = now;
  ++changes_;
}

// False: less than others have run again.
bool RecoveryJournal::note_work_again(const Milestone& milestone, RecoveryRecord& record) const {
  const int64_t steps = milestone.recomputed_steps;
  const bool is_most = steps > record.recomputed_steps;
  record.recomputed_steps = std::max(record.recomputed_steps, steps);
  if (steps <= record.survivor_recomputed_steps) return is_most;
  const std::string name = topology_.name_of(milestone.rank);
  if (std::ranges::find(record.roles, name) != record.roles.end()) return is_most;
  record.survivor_recomputed_steps = steps;
  return true;
}

// Only where it takes long enough for somebody to wonder.
std::optional<std::string> RecoveryJournal::tell_step_again(absl::Duration now,
                                                            const Milestone& milestone) {
  const Role role = topology_.role_of(milestone.rank);
  if (role.lane != 0 || now < told_again_ + kTellEvery || now < present()->planned + kTellEvery)
    return std::nullopt;
  told_again_ = now;
  return absl::StrCat("stage ", role.stage, " catches up, ", milestone.recomputed_steps,
                      " steps so far");
}

// Told once for each stage: there may be thousands of ranks.
std::optional<std::string> RecoveryJournal::tell_stage_done(std::set<Rank>& waiting, Rank rank,
                                                            const std::string& what) {
  if (waiting.erase(rank) == 0) return std::nullopt;
  const int stage = topology_.role_of(rank).stage;
  const std::vector<Rank> group = topology_.stage_group(stage);
  if (std::any_of(group.begin(), group.end(), [&](Rank one) { return waiting.contains(one); }))
    return std::nullopt;
  return absl::StrCat("stage ", stage, " ", what);
}

}  // namespace evermoe
