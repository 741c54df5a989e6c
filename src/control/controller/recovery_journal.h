// What a controller remembers of its recoveries, and what it tells of the one under way. Decides
// nothing but whose state is still missing.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/recovery_record.h"
#include "parallel/topology.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class RecoveryJournal {
 public:
  // `topology` outlives it. Former controllers have numbered their incidents up to
  // `incidents_after`.
  explicit RecoveryJournal(const Topology& topology, int64_t incidents_after = 0)
      : topology_(topology), incidents_after_(incidents_after) {}

  const std::vector<RecoveryRecord>& records() const { return records_; }
  int64_t changes() const { return changes_; }  // grows whenever records() change
  // Of the recovery under way, RecoveryRecord::incident; 0: there is none.
  int64_t incident() const;
  // Ranks of the plan in force have not gathered their state yet.
  bool is_loading() const { return !without_state_.empty(); }

  // `newest`: the newest commit then. Begins a recovery if none is under way.
  void on_loss(absl::Duration now, Commit newest, Rank rank, const std::string& how);
  // A warm standby plays it. False: no recovery in which it was lost is under way, or it is known.
  bool on_standby(Rank rank);
  void on_plan(absl::Duration now, const Plan& plan);
  // Gives what people should hear of it, if anything. One of an older view tells how far its rank
  // is, too.
  std::optional<std::string> on_milestone(absl::Duration now, const Milestone& milestone);
  // The first commit since the newest plan: whoever takes part in one has its state, and all have.
  // That they said so may have been lost.
  void on_commit() { without_state_.clear(); }
  // The job is further than it has ever been, or all its work is done: the recovery is over.
  void on_resumed(absl::Duration now);

 private:
  RecoveryRecord* present();
  bool note_work_again(const Milestone& milestone, RecoveryRecord& record) const;
  std::optional<std::string> tell_step_again(absl::Duration now, const Milestone& milestone);
  std::optional<std::string> tell_stage_done(std::set<Rank>& waiting, Rank rank,
                                             const std::string& what);

  const Topology& topology_;
  const int64_t incidents_after_;
  std::vector<RecoveryRecord> records_;
  // Of the plan in force: ranks that have not gathered their state, or not run their steps, again.
  std::set<Rank> without_state_, behind_;
  std::set<Rank> untold_state_;       // without a state, for the story
  std::optional<View> restart_view_;  // of the newest plan that started all again
  int64_t changes_ = 0;
  absl::Duration told_again_ = -absl::InfiniteDuration();
  int verified_ = 0;  // survivors that have compared their state since the plan
};

}  // namespace evermoe
