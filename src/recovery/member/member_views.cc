#include "recovery/member/member_views.h"

#include <utility>

#include "base/error.h"

namespace evermoe {

bool MemberViews::stop(View view) {
  const MutexLock lock(mutex_);
  return state_.stop(view);
}

void MemberViews::open(PlanPointer plan, bool restarts, std::optional<View> epoch) {
  {
    const MutexLock lock(mutex_);
    state_.open(std::move(plan), restarts, epoch);
  }
  wake_training_.raise();
}

void MemberViews::end(absl::Status status) {
  {
    const MutexLock lock(mutex_);
    if (!state_.end(std::move(status))) return;
  }
  wake_training_.raise();
}

absl::StatusOr<PlanPointer> MemberViews::pass(View after) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (auto entered = state_.enter(after)) return *std::move(entered);
    }
    RETURN_IF_ERROR(wake_training_.wait(patience_));
  }
}

absl::StatusOr<PlanPointer> MemberViews::next_start() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (auto started = state_.start()) return *std::move(started);
    }
    const absl::Status woken = wake_training_.wait(patience_);
    // The service thread may have ended the job and closed the transport before this one has woken.
    if (!woken.ok() && !has_ended()) return woken;
  }
}

absl::StatusOr<bool> MemberViews::wait_signal() {
  const absl::Status status = wake_training_.wait(ask_again_);
  {
    // What is waited for comes through the service thread, which has gone with the end.
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(state_.ended());
  }
  if (absl::IsDeadlineExceeded(status)) return false;
  RETURN_IF_ERROR(status);
  return true;
}

bool MemberViews::accept(View view, bool updates, const std::function<void()>& commit) {
  const MutexLock lock(mutex_);
  if (!state_.accepts(view)) return false;
  commit();
  if (updates) state_.set_updating(true);
  return true;
}

void MemberViews::set_base(Step base) {
  const MutexLock lock(mutex_);
  state_.set_base(base);
}

void MemberViews::set_has_state(bool has_state, Step held_state, Step experts_moved) {
  const MutexLock lock(mutex_);
  state_.set_has_state(has_state, held_state, experts_moved);
}

void MemberViews::set_logged_since(Step state) {
  const MutexLock lock(mutex_);
  state_.set_logged_since(state);
}

void MemberViews::set_updated() {
  const MutexLock lock(mutex_);
  state_.set_updating(false);
}

void MemberViews::set_taken() {
  const MutexLock lock(mutex_);
  state_.set_taken();
}

void MemberViews::set_finished() {
  const MutexLock lock(mutex_);
  state_.set_finished();
}

MemberViews::Standing MemberViews::standing() const {
  const MutexLock lock(mutex_);
  return state_.standing();
}

bool MemberViews::is_updating() const {
  const MutexLock lock(mutex_);
  return state_.is_updating();
}

bool MemberViews::is_resuming() const {
  const MutexLock lock(mutex_);
  return state_.is_resuming();
}

bool MemberViews::has_ended() const {
  const MutexLock lock(mutex_);
  return state_.has_ended();
}

View MemberViews::newest_view() const {
  const MutexLock lock(mutex_);
  return state_.newest();
}

View MemberViews::entered_view() const {
  const MutexLock lock(mutex_);
  return state_.entered();
}

PlanPointer MemberViews::plan() const {
  const MutexLock lock(mutex_);
  return state_.plan();
}

}  // namespace evermoe
