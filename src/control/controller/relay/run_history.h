// What a run has to hear of a job: every recovery, and what happened while no run listened.
//
// Pure. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "control/wire/control_messages.h"

namespace evermoe {

// With all its moments later by so much.
RecoveryNote shifted(RecoveryNote note, absl::Duration by);
MoveNote shifted(MoveNote note, absl::Duration by);

class RunHistory {
 public:
  // `records`: of all recoveries so far, of which only the newest one changes; `changes`: a number
  // that grows whenever it does. `failed`: since when what is new in them may be so. Returns the
  // note of the newest one if it says anything new: it may name every rank, so it is not copied
  // otherwise.
  std::optional<RecoveryNote> note(const std::vector<RecoveryRecord>& records, int64_t changes,
                                   absl::Duration failed);
  // The same of moves: of all that are new or have changed.
  std::vector<MoveNote> note(const std::vector<MoveRecord>& records, int64_t changes);
  // Nobody has heard it. The oldest of more than kUntoldMax is forgotten; what every run is told
  // when it comes is not kept.
  void keep(ControlMessage message);
  // For a run that has just come: all recoveries and moves, later by `shift`, and what was kept,
  // which is told once.
  std::vector<ControlMessage> tell(absl::Duration shift);
  // Some run has heard how the job ended.
  void note_end_told() { is_end_told_ = true; }
  bool is_end_told() const { return is_end_told_; }

  static constexpr size_t kUntoldMax = 4096;

 private:
  std::vector<RecoveryNote> recoveries_;
  int64_t changes_ = 0;  // that are noted
  std::vector<MoveNote> moves_;
  int64_t move_changes_ = 0;
  std::deque<ControlMessage> untold_;
  bool is_end_told_ = false;
};

}  // namespace evermoe
