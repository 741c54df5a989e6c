#include "recovery/view_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

bool ViewGate::stop(View view) {
  const std::lock_guard lock(mutex_);
  if (view <= view_) return false;
  view_ = view;
  is_open_ = false;
  return true;
}

void ViewGate::open(std::shared_ptr<const Plan> plan, bool restarts) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(plan->view == view_ && !is_open_) << "view " << plan->view << " was not stopped for";
    is_open_ = true;
    must_restart_ = must_restart_ || restarts;
    plan_ = std::move(plan);
  }
  wake_training_.raise();
}

void ViewGate::end(absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    has_ended_ = true;
    end_ = std::move(status);
  }
  wake_training_.raise();
}

absl::StatusOr<std::shared_ptr<const Plan>> ViewGate::pass(View after) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (has_ended_) return end_.ok() ? Internal("the job is over") : end_;
      if (must_restart_) return Cancelled(absl::StrCat("this stage goes back in view ", view_.value));
      if (is_open_ && view_ > after) {
        entered_ = view_;
        return plan_;
      }
    }
    RETURN_IF_ERROR(wake_training_.wait(patience_));
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
  if (!is_open_ || view_ != view || must_restart_ || has_ended_) return false;
  commit();
  return true;
}

absl::StatusOr<std::shared_ptr<const Plan>> ViewGate::next_start() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      is_at_start_ = true;
      if (has_ended_) return end_.ok() ? Cancelled("the job is over") : end_;
      if (must_restart_ && is_open_) {
        must_restart_ = false;
        is_at_start_ = false;
        is_finished_ = false;
        stage_epoch_ = entered_ = plan_->view;
        base_ = plan_->restart_all ? Step(-1) : plan_->base;
        return plan_;
      }
    }
    RETURN_IF_ERROR(wake_training_.wait(patience_));
  }
}

View ViewGate::newest_view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

View ViewGate::entered_view() const {
  const std::lock_guard lock(mutex_);
  return entered_;
}

std::shared_ptr<const Plan> ViewGate::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

void ViewGate::set_base(Step base) {
  const std::lock_guard lock(mutex_);
  base_ = base;
}

bool ViewGate::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void ViewGate::set_finished() {
  const std::lock_guard lock(mutex_);
  is_finished_ = true;
}

ViewGate::Standing ViewGate::standing() const {
  const std::lock_guard lock(mutex_);
  return {stage_epoch_, base_, is_finished_, must_restart_ || (is_at_start_ && !is_finished_)};
}

}  // namespace evermoe
