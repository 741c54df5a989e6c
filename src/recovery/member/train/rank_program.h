// The program of a rank: begin by a plan, then step after step what the job's configuration asks
// for, until everybody has closed. It says what to run next; the trainer runs it, the restorer
// brings back what is lost.
//
// A process that was just started and one whose stage lost a rank do the same thing: begin by the
// plan of the view, from a window of snapshots, and run the program from there; commits that the
// job has made already are answered from the records.
//
// Where gradients are kept, and where nobody has to go back, survivors of a stage that begins anew
// do so from the state that they have, and tell, evaluate and save nothing a second time.
//
// Threads: training thread only.
#pragma once

#include "absl/status/status.h"
#include "recovery/member/member_options.h"
#include "recovery/member/restore/gradient_restorer.h"
#include "recovery/member/restore/restorer.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/member/train/boundary_exchange.h"
#include "recovery/member/train/commit_agreement.h"
#include "recovery/member/train/hand_over.h"
#include "recovery/member/train/step_timer.h"
#include "recovery/member/train/window_state.h"
#include "recovery/plan/recovery_memory.h"

namespace evermoe {

class RankProgram {
 public:
  struct Dependencies {
    Rank rank;
    const Topology& topology;
    const MemberOptions& options;
    const MemberObserver& observer;
    StageTrainer& trainer;
    MemberViews& views;
    ControlLink& control;
    TroubleReporter& troubles;
    RecoveryMemory& memory;
    SnapshotCopies& copies;
    BoundaryExchange& exchange;
    WindowState& window;
    StepTimer& timer;
    CommitAgreement& commits;
    HandOver& hand_over;
    Restorer& restorer;
    GradientRestorer& gradients;
    WorkCounts& counts;
  };
  explicit RankProgram(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // Ok when the job is over; an error if this process has to end. Whatever a new view can repair is
  // told to the controller and waited for.
  absl::Status run();

 private:
  absl::Status begin(const Plan& plan);
  // By a plan that sends everybody back to the newest durable state.
  void free_messages(const Plan& plan);
  absl::Status resume(const Plan& plan);
  absl::Status play();
  // At a state: restore, change lanes, move experts, verify, capture, evaluate, save.
  absl::Status arrive();
  // Moves the state at hand to the lanes that train from it on, if they are others.
  absl::Status change_lanes(Step step);
  // The same for experts, between lanes that stay.
  absl::Status move_experts(Step step);
  absl::Status free_cut_windows(Step step);
  absl::Status protect(Step step);
  absl::Status capture(Step step);
  // Whether copies have to be at their holders before the verdict on the step that leads to `next`.
  bool waits_for_copies(Step next) const;
  // Of the step from `begin`, if they are kept: they go to its holders while it runs.
  absl::Status begin_gradients(Step begin);
  void tell_caught_up(Step step);
  absl::Status evaluate(Step step);
  absl::StatusOr<Record> evaluate_batch(Commit commit, int64_t batch);
  absl::Status save_if_due(Step step);
  absl::Status step();
  // The same for a step whose gradients are kept.
  absl::Status update();
  // The trainer has come to the state of this record.
  void tell_step(const Record& record);
  void count_step(bool again);
  absl::Status close();
  // After the step that began at `begin` and led to `record`.
  absl::Status free_what_is_old(Step begin, const Record& record);

  bool rests() const { return in_.trainer.membership().rests(in_.rank); }
  bool is_known(Step step) const { return in_.commits.is_known(verdict_commit(step)); }

  // What was done with the state at hand.
  struct Done {
    Step state{-1};      // that was told
    Step evaluated{-1};  // whose evaluation the trainer has
  };

  const Dependencies in_;
  Done done_;
  int64_t recomputed_since_begin_ = 0;
  View announced_;  // view of the last kCaughtUp
};

}  // namespace evermoe
