// The views of one member as a state machine: stopped for, open, entered, ended; and whether its
// training thread has to begin anew. Pure: no waiting, no I/O, no lock (member_view.h adds them).
//
//   stop(v)      nothing older than v is accepted any more; the member reports
//   open(plan)   v is open; who waits goes on there, or begins anew if its stage goes back
//   enter/start  the training thread goes on in the open view, or begins by its plan
//   end          the job is over, or this process has to end
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

using PlanPointer = std::shared_ptr<const Plan>;

class ViewState {
 public:
  // From now on nothing is accepted in views before `view`. False if it is not newer than the
  // present one.
  bool stop(View view);
  // Opens plan->view, which was stopped for before. `restarts`: the training thread has to begin
  // anew, among those of its stage that began in `epoch`; nullopt: in this view.
  void open(PlanPointer plan, bool restarts, std::optional<View> epoch = std::nullopt);
  // With success, or because this process has to end. Only the first end counts; false for later
  // ones.
  bool end(absl::Status status);

  // The training thread asks for a view later than `after`. The plan in force; Cancelled if it has
  // to begin anew, any other error if the process ends; nullopt: not yet.
  std::optional<absl::StatusOr<PlanPointer>> enter(View after);
  // Ok unless this process has ended. To the training thread in the midst of its work even the end
  // of the job is an error: it cannot go on.
  absl::Status ended() const;
  // It has left its work and asks by which plan to begin (anew). Null when the job is over;
  // nullopt: not yet.
  std::optional<absl::StatusOr<PlanPointer>> start();
  // May a commit be made in `view`?
  bool accepts(View view) const {
    return is_open_ && view_ == view && !must_restart_ && !has_ended_;
  }
  // The state at which the run began, once that is known.
  void set_base(Step base) { base_ = base; }
  // Whether the trainer's state is whole and at the end of a step, and which one that is;
  // StageTrainer::experts_moved().
  void set_has_state(bool has_state, Step held_state, Step experts_moved) {
    has_state_ = has_state;
    held_state_ = held_state;
    experts_moved_ = experts_moved;
    if (has_state && held_state >= catches_up_to_) catches_up_to_ = Step(-1);
  }
  // Report::logged_since. One that begins at the newest state without one of its own has logged
  // nothing from before, which start() notes: a report may be made before it comes to restore that.
  void set_logged_since(Step state) { logged_since_ = state; }
  // It has the verdict on a step, and is on its way to the state after it: a matter of a moment.
  void set_updating(bool is_updating) { is_updating_ = is_updating; }
  // What the plan let it take is there (Report::awaits_state).
  void set_taken() { awaits_state_ = Step(-1); }
  // The work is done; the training thread waits for a release or a plan that sends it back.
  void set_finished() { is_finished_ = true; }

  // What a report says of the training thread, at one moment.
  struct Standing {
    View stage_epoch;  // of the plan by which it began; 0: never
    Step base{-1};
    bool is_finished = false;
    bool has_state = false;
    bool is_broken = false;  // it has left its work and waits for a plan that lets it begin anew
    Step experts_moved{-1};
    Step held_state{-1};
    Step logged_since{-1};
    Step catches_up_to{-1};
    Step awaits_state{-1};
  };
  Standing standing() const;
  // All resume, and the training thread has not come to the end of that: what it committed before
  // is of a run that is over.
  bool is_resuming() const {
    return plan_ != nullptr && plan_->restart_all &&
           (stage_epoch_ < plan_->view || base_ < Step(0));
  }
  bool is_updating() const { return is_updating_; }
  bool has_ended() const { return has_ended_; }
  View newest() const { return view_; }  // stopped for or open
  View entered() const {
    return entered_;
  }  // the newest one whose plan the training thread has taken
  const PlanPointer& plan() const { return plan_; }  // the newest that was opened; null before

 private:
  View view_;
  bool is_open_ = false;
  bool must_restart_ = false;
  bool is_at_start_ = true;
  bool is_finished_ = false;
  bool has_state_ = false;
  bool is_updating_ = false;
  Step held_state_{-1};
  Step experts_moved_{-1};
  Step logged_since_{-1};
  Step catches_up_to_{-1};
  Step awaits_state_{-1};
  View stage_epoch_;
  View next_epoch_;  // of the plan by which it has to begin
  View entered_;
  Step base_{-1};
  bool has_ended_ = false;
  absl::Status end_;
  PlanPointer plan_;
};

}  // namespace evermoe
