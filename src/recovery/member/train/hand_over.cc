#include "recovery/member/train/hand_over.h"

#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/protocol/handed_position.h"

namespace evermoe {

// Where gradients are kept the snapshot at the beginning of the window has gone out when the next
// one begins.
bool HandOver::may_stop_at(Step state) const {
  return !in_.keeps_gradients || in_.window.schedule().rule().is_first_of_window(state);
}

// A state that is recomputed is none to leave at: others are further.
bool HandOver::may_leave(Step state) const {
  return !in_.trainer.membership().rests(in_.rank) && !in_.trainer.is_finished() &&
         !in_.commits.is_known(verdict_commit(Step(state.value + 1)));
}

absl::Status HandOver::stop_if_due(Step state) {
  // What the next step adds to must have been read, also if the order was called off meanwhile.
  if (std::exchange(reads_gradients_, false)) RETURN_IF_ERROR(in_.copies.wait_captured());
  if (!may_stop_at(state) || !may_leave(state)) return absl::OkStatus();
  const View view = in_.views.newest_view();
  if (in_.leave.passes(view, state)) return absl::OkStatus();
  const auto is_due = [&] {
    return in_.views.newest_view() == view && in_.leave.stops_at(view, state);
  };
  in_.timer.leave_out();
  fault_point("move/hand_over");
  RETURN_IF_ERROR(give_rest(view, state));
  ASSIGN_OR_RETURN(const CopyLedger::IsNeeded is_needed, what_leads_here(state));
  in_.joiner.give_only(is_needed);
  const auto has_all = [&] { return in_.joiner.has_all(is_needed); };
  RETURN_IF_ERROR(in_.copies.wait_until(has_all, is_due));
  if (is_due()) in_.control.send(HandedOver{view, in_.rank, state, state_bytes()});
  fault_point("move/handed_over");
  while (is_due()) {
    RETURN_IF_ERROR(in_.views.pass().status());
    RETURN_IF_ERROR(in_.views.wait_signal().status());
  }
  return in_.copies.wait_captured();
}

// Where gradients are kept, the complete window and all gradients since: with them what was given
// ahead is not needed. Asked on any thread.
absl::StatusOr<CopyLedger::IsNeeded> HandOver::what_leads_here(Step state) const {
  if (!in_.keeps_gradients) return is_of_hand_over;
  ASSIGN_OR_RETURN(const Record here, in_.commits.record_of(verdict_commit(state)));
  const int slots = in_.window.schedule().slots();
  return [slots, complete = here.complete_window](SlotTime time) {
    if (is_of_hand_over(time)) return false;
    return time.slot >= slots || complete < Step(0) || time.window <= complete;
  };
}

absl::Status HandOver::give_rest(View view, Step state) {
  if (in_.keeps_gradients) return absl::OkStatus();
  const std::optional<Ahead> ahead = std::exchange(ahead_, std::nullopt);
  const bool is_ahead = ahead && ahead->view == view && ahead->state.value + 1 == state.value;
  ASSIGN_OR_RETURN(RecordBytes position, this->position());
  if (!is_ahead) RETURN_IF_ERROR(in_.copies.capture_whole(state, position));
  const Step base = is_ahead ? ahead->state : state;
  return in_.copies.capture_position({base, stopped_after_whole(is_ahead ? 1 : 0)},
                                     std::move(position));
}

// Where experts have moved since the window, or are about to, all make the move again on their way
// from there (GradientRestorer).
bool HandOver::may_give_ahead(Step state) const {
  if (!in_.keeps_gradients) return true;
  const auto here = in_.commits.record_of(verdict_commit(state));
  return here.ok() && here->complete_window >= Step(0) &&
         in_.trainer.experts_moved() <= here->complete_window &&
         !in_.trainer.may_move_experts(Step(state.value + 1));
}

absl::Status HandOver::give_ahead(Step state) {
  ahead_.reset();
  const View view = in_.views.newest_view();
  const Step next(state.value + 1);
  if (!may_leave(state) || !may_stop_at(next) || !in_.leave.stops_at(view, next) ||
      !may_give_ahead(state))
    return absl::OkStatus();
  in_.timer.leave_out();
  ASSIGN_OR_RETURN(RecordBytes position, this->position());
  RETURN_IF_ERROR(in_.copies.capture_whole(state, std::move(position)));
  if (!in_.keeps_gradients) ahead_ = Ahead{view, state};
  return absl::OkStatus();
}

absl::Status HandOver::begin_step(Step state) {
  if (!ahead_ || ahead_->state != state) return absl::OkStatus();
  ASSIGN_OR_RETURN(RecordBytes position, this->position());
  reads_gradients_ = true;
  return in_.copies.begin_gradients({state, gradients_after_whole(0)}, std::move(position));
}

absl::StatusOr<RecordBytes> HandOver::position() const {
  HandedPosition handed;
  handed.position = in_.window.position();
  ASSIGN_OR_RETURN(handed.record, in_.commits.record_of(verdict_commit(in_.trainer.step())));
  return encode(handed);
}

int64_t HandOver::state_bytes() const {
  int64_t bytes = 0;
  for (const StageOperator& op : in_.trainer.operators()) bytes += op.bytes.full;
  return bytes;
}

}  // namespace evermoe
