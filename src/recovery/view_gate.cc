#include "recovery/view_gate.h"

#include <utility>

#include "base/error.h"

namespace evermoe {

bool ViewGate::stop(View view) {
  const std::lock_guard lock(mutex_);
  return state_.stop(view);
}

void ViewGate::open(PlanPointer plan, bool restarts) {
  {
    const std::lock_guard lock(mutex_);
    state_.open(std::move(plan), restarts);
  }
  wake_training_.raise();
}

void ViewGate::end(absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (!state_.end(std::move(status))) return;
  }
  wake_training_.raise();
}

absl::StatusOr<PlanPointer> ViewGate::pass(View after) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (auto entered = state_.enter(after)) return *std::move(entered);
    }
    RETURN_IF_ERROR(wake_training_.wait(patience_));
  }
}

absl::StatusOr<PlanPointer> ViewGate::next_start() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (auto started = state_.start()) return *std::move(started);
    }
    const absl::Status woken = wake_training_.wait(patience_);
    // The service thread may have ended the job and closed the transport before this one has woken.
    if (!woken.ok() && !has_ended()) return woken;
  }
}

absl::StatusOr<bool> ViewGate::wait_signal() {
  const absl::Status status = wake_training_.wait(ask_again_);
  if (absl::IsDeadlineExceeded(status)) return false;
  RETURN_IF_ERROR(status);
  return true;
}

bool ViewGate::accept(View view, const std::function<void()>& commit) {
  const std::lock_guard lock(mutex_);
  if (!state_.accepts(view)) return false;
  commit();
  return true;
}

void ViewGate::set_base(Step base) {
  const std::lock_guard lock(mutex_);
  state_.set_base(base);
}

void ViewGate::set_finished() {
  const std::lock_guard lock(mutex_);
  state_.set_finished();
}

ViewGate::Standing ViewGate::standing() const {
  const std::lock_guard lock(mutex_);
  return state_.standing();
}

bool ViewGate::has_ended() const {
  const std::lock_guard lock(mutex_);
  return state_.has_ended();
}

View ViewGate::newest_view() const {
  const std::lock_guard lock(mutex_);
  return state_.newest();
}

View ViewGate::entered_view() const {
  const std::lock_guard lock(mutex_);
  return state_.entered();
}

PlanPointer ViewGate::plan() const {
  const std::lock_guard lock(mutex_);
  return state_.plan();
}

}  // namespace evermoe
