// How a rank that was told to leave (LeaveOrder) gives its state to the process that takes its
// role.
//
// The state before the one at which it stops is captured whole and goes out while the step between
// the two runs, and with it the gradients of that step: the other side makes the update itself. So
// there is little left to be sent when everybody waits. An order that comes late has it stop with
// the whole state to give, and so has a state at which operators came to other lanes.
//
// Where gradients are kept anyway a role stops where a window begins: the one before, and all
// gradients since, are with the other side by then, and lead there. It is given the state before
// that one, too, as far as it arrives in time, so that a single update is left to be made.
//
// Threads: training thread only.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "recovery/member/role_leave.h"
#include "recovery/member/serve/joiner_memory.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/member/train/commit_agreement.h"
#include "recovery/member/train/step_timer.h"
#include "recovery/member/train/window_state.h"

namespace evermoe {

class HandOver {
 public:
  struct Dependencies {
    Rank rank;
    bool keeps_gradients = false;  // of every step, with those who keep this rank's copies
    RoleLeave& leave;
    MemberViews& views;
    ControlLink& control;
    StageTrainer& trainer;
    SnapshotCopies& copies;
    JoinerMemory& joiner;
    WindowState& window;
    StepTimer& timer;
    CommitAgreement& commits;
  };
  explicit HandOver(Dependencies dependencies) : in_(dependencies) {}

  // At a dense state of which nothing has been captured. If this rank is to stop there: returns
  // when that was called off. Cancelled if the member has to begin anew.
  absl::Status stop_if_due(Step state);
  // What is captured of the state for others is under way. If this rank stops at the next one, it
  // gives this one ahead.
  absl::Status give_ahead(Step state);
  // Operators have come to other lanes at this state, after the step that led to it.
  void on_moved() { ahead_.reset(); }
  // The step from this state is about to run, for the first time.
  absl::Status begin_step(Step state);

 private:
  // A state that was given whole, in this view, before the step that leads to the last one.
  struct Ahead {
    View view;
    Step state;
  };
  bool may_leave(Step state) const;
  bool may_stop_at(Step state) const;
  bool may_give_ahead(Step state) const;
  absl::StatusOr<CopyLedger::IsNeeded> what_leads_here(Step state) const;
  absl::Status give_rest(View view, Step state);
  absl::StatusOr<RecordBytes> position() const;
  int64_t state_bytes() const;

  const Dependencies in_;
  std::optional<Ahead> ahead_;
  bool reads_gradients_ = false;
};

}  // namespace evermoe
