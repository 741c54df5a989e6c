// How a rank goes back: it notes the state it has, gathers records and snapshots that it lacks,
// restores slot after slot while the program runs the steps between them, and compares in the end.
//
//   begin(plan)                           at the base, or at the window before its first slot
//   restore_next_slot(), a step, ...      until is_restoring() is false
//   on_dense_state()                      at the end of every step from then on
//
// Where gradients are kept it is at a state that it has or was given ahead, or at the window, and
// what follows is GradientRestorer's. Where nobody has to go back (Plan::renews) it is at the
// plan's state at once.
//
// Threads: training thread only.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "recovery/member/restore/gradient_restorer.h"
#include "recovery/member/restore/slot_restore.h"
#include "recovery/member/restore/state_before_rollback.h"
#include "recovery/member/restore/window_fetch.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/member/train/commit_agreement.h"
#include "recovery/member/train/window_state.h"
#include "recovery/member/trouble_reporter.h"
#include "recovery/plan/recovery_memory.h"
#include "recovery/protocol/handed_position.h"

namespace evermoe {

class Restorer {
 public:
  struct Dependencies {
    Rank rank;
    const Topology& topology;
    StageTrainer& trainer;
    MemberViews& views;
    ControlLink& control;
    TroubleReporter& troubles;
    CommitAgreement& commits;
    RecoveryMemory& memory;
    SnapshotCopies& copies;
    WindowState& window;
    WindowFetch& fetch;
    GradientRestorer& gradients;
    WorkCounts& counts;
    Witnesses& witnesses;
    int64_t bytes_at_once;  // read of an operator for its fingerprint
    bool keeps_gradients = false;
  };
  explicit Restorer(Dependencies dependencies);

  // The whole job goes back to a durable state, which will be dense.
  void begin_run();
  // By a plan in which this rank's stage begins anew. Cancelled if it has to do so again.
  absl::Status begin(const Plan& plan);
  // The last begin() left the trainer the state that it had.
  bool has_kept_state() const { return has_kept_state_; }
  // Slots of the window are still to come: some operators are frozen.
  bool is_restoring() const { return restoring_.has_value(); }
  // REQUIRES: is_restoring(), and the trainer is at the state of that slot.
  absl::Status restore_next_slot();
  // Operators of the state at hand are about to move to other lanes: it is none until
  // on_dense_state().
  void on_changing_lanes() { set_has_state(false); }
  // The state at hand is dense. Contradiction if this rank had it before with other bits.
  absl::Status on_dense_state();

  // The store has what this process was given before it took the role. With the next begin() what
  // of it is still a window of the job counts as captured, and the rest goes; begin_run() has
  // thrown all of it away.
  void set_inherits() { inherits_ = true; }
  // Before any plan: what the former process hands over first, the state one step before it stops,
  // which then need not be restored when everybody waits. `whole`: the chunks of that slot.
  // InvalidInput if they are laid out for other lanes than the trainer's.
  absl::Status restore_ahead(const std::vector<Chunk>& whole);

  // A fault for tests: changes a bit of the first active operator.
  void corrupt_state();

  const ActiveOperators& active() const { return active_; }

 private:
  // Which slot comes next.
  struct Restoring {
    Step window;
    int next_slot = 0;
  };
  // At `from`, a state at which this rank begins.
  absl::Status restore(const Plan& plan, Step from, const Record& record, Milestone& milestone);
  // At the plan's state: who is new takes it whole.
  absl::Status renew(const Plan& plan, const Record& record, std::optional<Step> ahead,
                     Milestone& milestone);
  bool leads_on(Step ahead, const Plan& plan) const;
  absl::Status restore_handed(const HandedState& handed, bool has_whole);
  // Takes up the position, and notes it with the record that led to it.
  OnPosition take_handed(HandedPosition& at);
  absl::Status note_record(SlotTime time, HandedPosition& at) const;
  bool fits(const ChunkHeader& header) const;
  void inherit(const std::function<bool(Step window)>& is_kept);
  void rest(Step from, const Record& record, Milestone& milestone);
  bool keeps_state(const Plan& plan) const;
  // Whether the state at hand is on the lanes that the plan says it was on, with its experts where
  // they live from it on.
  bool is_on_planned_lanes(const Plan& plan) const;
  absl::Status restore_base(const Plan& plan);
  void set_has_state(bool has_state);
  absl::Status restore_position(std::span<const std::byte> position, SlotTime time);

  const Dependencies in_;
  ActiveOperators active_;
  std::optional<Restoring> restoring_;
  StateBeforeRollback before_;
  bool has_state_ = false;  // dense and at a step's end
  bool has_kept_state_ = false;
  bool inherits_ = false;
  std::optional<Step> ahead_;  // the trainer has what restore_ahead() has brought of this state
};

}  // namespace evermoe
