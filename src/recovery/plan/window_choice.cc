#include "recovery/plan/window_choice.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "base/check.h"

namespace evermoe {
namespace {

bool has_moved(double from, double to) { return to > 1.25 * from || from > 1.25 * to; }

}  // namespace

WindowPlanInput plan_input(const OperatorOrdering& ordering, const StepProfile& step,
                           const WindowConditions& conditions) {
  WindowPlanInput input;
  input.operators = ordering.profiles(step.step_seconds, &StageOperator::bytes);
  input.whole = ordering.profiles(step.step_seconds, &StageOperator::whole);
  input.popularity = ordering.popularity();
  input.rules = {ordering.rule()};
  input.step = step;
  input.recovery = conditions.recovery;
  input.limits = {.length_min = 1,
                  .length_max = std::max(1, conditions.slots_max),
                  .copies = 0,
                  .copies_min = 0,
                  .stall_share_max = std::numeric_limits<double>::infinity()};
  return input;
}

WindowPlan choose_window(const OperatorOrdering& ordering, const StepProfile& step,
                         const WindowConditions& conditions) {
  auto plan = plan_window(plan_input(ordering, step, conditions));
  CHECK(std::holds_alternative<WindowPlan>(plan)) << "nothing limits it";
  return std::get<WindowPlan>(std::move(plan));
}

void WindowChooser::add_step(double seconds, double copying_seconds, int64_t captured_bytes) {
  newest_.push_back({seconds, copying_seconds, captured_bytes});
  if (newest_.size() > kStepsMax) newest_.pop_front();
}

StepProfile WindowChooser::profile() const {
  std::vector<double> seconds;
  for (const Measured& step : newest_) seconds.push_back(step.seconds);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  StepProfile profile;
  profile.step_seconds = *middle;
  profile.copy_bytes_per_second = conditions_.copy_bytes_per_second;
  profile.log_bytes = conditions_.log_bytes;
  const int64_t bytes = newest_.back().captured_bytes - newest_.front().captured_bytes;
  if (conditions_.copies_slow_training && bytes > 0) {
    profile.slowdown_seconds_per_byte =
        (newest_.back().copying_seconds - newest_.front().copying_seconds) /
        static_cast<double>(bytes);
  }
  return profile;
}

int WindowChooser::wanted(const OperatorOrdering& ordering) {
  if (newest_.size() < kStepsMin) return 0;
  const StepProfile now = profile();
  const bool is_known =
      answered_for_ && !has_moved(answered_for_->step_seconds, now.step_seconds) &&
      !has_moved(answered_for_->slowdown_seconds_per_byte, now.slowdown_seconds_per_byte);
  if (is_known) return plan_.window.length();
  answered_for_ = now;
  plan_ = choose_window(ordering, now, conditions_);
  return plan_.window.length();
}

}  // namespace evermoe
