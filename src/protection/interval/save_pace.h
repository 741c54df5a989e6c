// When durable saves are due if they may cost no more than a given share of training time.
//
// CheckFreq (Mohan et al., FAST '21): two saves are at least as far apart as a save takes to reach
// the disk, and so far that what it lengthens training by, spread over the steps between, stays
// within the budget. Both are measured while training goes on, so the interval follows a disk that
// gets slower. What one rank measures is a vote; the longest interval that any rank wants is in a
// step's verdict, so all save the same steps. Which steps those are changes no bit of training.
//
// Pure. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

class SavePace {
 public:
  // Before anything is measured.
  static constexpr int64_t kFirstInterval = 8;
  static constexpr int64_t kIntervalMax = 1'000'000'000;

  // A share of training time, above 0.
  explicit SavePace(double overhead_budget);

  // Training goes on from the state at `step`, which needs no save; none is under way.
  void begin(Step step);

  // ---- what this rank measures

  void on_step(absl::Duration time);
  // Between two steps: a save that was due has begun, for which training stood still for so long.
  void on_save_begun(absl::Duration now, absl::Duration paused);
  // In a step: it is on disk. Or nothing is written of it any more; then it says nothing.
  void on_save_ended(absl::Duration now, bool is_on_disk);
  bool is_saving() const { return save_ && !save_->written; }
  // The steps between two saves that this rank wants; at the verdict of the step that leads to
  // `next`. So many that none is due while it writes the last one.
  int64_t vote(Step next) const;

  // ---- what all ranks agreed on

  // By the verdict that leads to `step`. `last`: the greatest last() of all ranks, because a
  // process that has come to a role that rests was not there.
  void on_verdict(Step step, int64_t interval, Step last);
  bool is_due(Step step) const { return step == last_ && step > begin_; }
  Step last() const { return last_; }

 private:
  struct Save {
    absl::Duration began;
    absl::Duration cost;                    // so far, without the step under way
    std::optional<absl::Duration> written;  // so long after it began
  };

  std::optional<absl::Duration> usual_step() const;
  int64_t wanted() const;

  const double overhead_budget_;
  std::deque<absl::Duration> steps_;   // the newest that no save lengthened
  std::deque<absl::Duration> costs_;   // of the newest saves
  std::deque<absl::Duration> writes_;  // likewise, from begin to disk
  std::optional<Save> save_;           // the newest, until the step has ended in which it did
  Step begin_{0};
  Step last_{0};  // due last, or begin_
};

}  // namespace evermoe
