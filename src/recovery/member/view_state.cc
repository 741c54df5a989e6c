#include "recovery/member/view_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

bool ViewState::stop(View view) {
  if (view <= view_) return false;
  view_ = view;
  is_open_ = false;
  return true;
}

void ViewState::open(PlanPointer plan, bool restarts, std::optional<View> epoch) {
  CHECK(plan->view == view_ && !is_open_) << "view " << plan->view << " was not stopped for";
  is_open_ = true;
  must_restart_ = must_restart_ || restarts;
  next_epoch_ = epoch.value_or(plan->view);
  plan_ = std::move(plan);
}

bool ViewState::end(absl::Status status) {
  if (has_ended_) return false;
  has_ended_ = true;
  end_ = std::move(status);
  return true;
}

absl::Status ViewState::ended() const {
  return has_ended_ && end_.ok() ? Internal("the job is over") : end_;
}

std::optional<absl::StatusOr<PlanPointer>> ViewState::enter(View after) {
  if (has_ended_) return ended();
  if (must_restart_) return Cancelled(absl::StrCat("this stage goes back in view ", view_.value));
  if (!is_open_ || view_ <= after) return std::nullopt;
  entered_ = view_;
  return plan_;
}

std::optional<absl::StatusOr<PlanPointer>> ViewState::start() {
  is_at_start_ = true;
  is_updating_ = false;
  if (has_ended_ && !end_.ok()) return end_;
  if (has_ended_) return PlanPointer();
  if (!must_restart_ || !is_open_) return std::nullopt;
  must_restart_ = false;
  is_at_start_ = false;
  is_finished_ = false;
  stage_epoch_ = next_epoch_;
  entered_ = plan_->view;
  base_ = plan_->restart_all ? Step(-1) : plan_->base;
  if (plan_->renews && !has_state_) logged_since_ = plan_->state;
  awaits_state_ = plan_->renews && !has_state_ ? plan_->state : Step(-1);
  catches_up_to_ = plan_->restart_all || plan_->renews ? Step(-1) : plan_->state;
  return plan_;
}

ViewState::Standing ViewState::standing() const {
  return {stage_epoch_,
          base_,
          is_finished_ && !must_restart_,
          has_state_,
          must_restart_ || (is_at_start_ && !is_finished_),
          experts_moved_,
          held_state_,
          logged_since_,
          catches_up_to_,
          awaits_state_};
}

}  // namespace evermoe
