// How far the job has come, and how many losses it may still have before it is given up. Pure.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

// The commits of the job, through all its restarts.
class JobProgress {
 public:
  Commit newest() const { return newest_; }      // of the present run: a restart begins with none
  Commit furthest() const { return furthest_; }  // of all runs

  // What a member that joins knows of.
  void on_joined(Commit newest);
  // All go back to a durable checkpoint in this view.
  void on_restart(View view);
  // One that has been heard of, or comes from before the newest restart.
  bool is_old(const Progress& progress) const {
    return progress.newest <= newest_ || progress.view < restarted_;
  }
  // The job has come further than ever, or begins again with a newer checkpoint than before: true.
  // REQUIRES: it is not old.
  bool on_commit(Commit newest);

 private:
  Commit newest_{-1};
  Commit furthest_{-1};
  View restarted_;    // of the newest restart of all
  Commit first_{-1};  // the first commit after it, unless the job has come further than ever since
};

// Counts what goes wrong without progress in between.
class LossLimits {
 public:
  // `options` outlive it.
  explicit LossLimits(const ControllerOptions& options) : options_(options) {}

  void on_progress() { losses_ = failures_in_row_ = 0; }

  // Of a worker, a node, or a whole rack with all its workers. True: too many.
  bool count_loss() {
    ++counted_;
    return ++losses_ > options_.losses_max;
  }
  int64_t counted() const { return counted_; }  // ever
  int losses() const { return losses_; }

  // ---- without protection: a failure that no earlier one explains sends everybody back
  struct Restart {
    bool is_allowed = false;
    int number = 0;        // in a row without progress, from 1
    absl::Duration delay;  // before anybody is started again
  };
  Restart count_failure(absl::Duration now);
  int64_t failures() const { return failures_; }
  void on_plan();
  // Nothing was counted since the newest plan.
  bool is_unexplained() const { return has_planned_ && planned_ == failures_; }
  absl::Duration start_at() const { return start_at_; }  // the end of the back-off

 private:
  const ControllerOptions& options_;
  int losses_ = 0;
  int64_t counted_ = 0;
  int64_t failures_ = 0;
  int failures_in_row_ = 0;
  bool has_planned_ = false;
  int64_t planned_ = 0;  // failures_ when the newest plan went out
  absl::Duration start_at_ = -absl::InfiniteDuration();
};

}  // namespace evermoe
