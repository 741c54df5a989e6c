#include "recovery/window_choice.h"

#include <algorithm>
#include <numeric>

namespace evermoe {
namespace {

// The window of one rank whose operators have these slots, and the order that it comes from.
Window window_of(const std::vector<int>& slot_of, int slots, const std::vector<OperatorProfile>& operators, CaptureOrder& order) {
  order.resize(slot_of.size());
  std::iota(order.begin(), order.end(), 0);
  const auto slot_at = [&](int op) { return slot_of[static_cast<size_t>(op)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return slot_at(a) < slot_at(b); });
  const std::vector<OperatorCost> costs = costs_in_order(operators, order);
  Window window;
  int begin = 0;
  for (int slot = 0; slot < slots; ++slot) {
    int end = begin;
    while (end < static_cast<int>(order.size()) && slot_at(order[static_cast<size_t>(end)]) == slot) ++end;
    window.slots.push_back({begin, end});
    window.step_bytes.push_back(slot_bytes(costs, window.slots.back()));
    window.peak_bytes = std::max(window.peak_bytes, window.step_bytes.back());
    window.total_bytes += window.step_bytes.back();
    begin = end;
  }
  return window;
}

bool has_moved(double from, double to) { return to > 1.25 * from || from > 1.25 * to; }

}  // namespace

WindowPrice price_window(const OperatorOrdering& ordering, int slots, const StepProfile& step, const RecoveryProfile& recovery) {
  CaptureOrder order;
  const Window window = window_of(ordering.slots_of_operators(slots), slots,
                                  ordering.profiles(step.step_seconds, &StageOperator::bytes), order);
  WindowPrice price{.slots = slots};
  price.stall_share = mean_stall_share(window, step);
  price.slowdown_share = mean_slowdown_share(window, step);
  price.recovery_seconds = expected_recovery_seconds(ordering.profiles(step.step_seconds, &StageOperator::whole), order,
                                                     window, recovery);
  price.cost = price.stall_share + price.slowdown_share + price.recovery_seconds / recovery.mtbf_seconds;
  return price;
}

WindowPrice choose_window(const OperatorOrdering& ordering, const StepProfile& step, const WindowConditions& conditions) {
  WindowPrice best = price_window(ordering, 1, step, conditions.recovery);
  for (int slots = 2; slots <= conditions.slots_max; ++slots) {
    const WindowPrice price = price_window(ordering, slots, step, conditions.recovery);
    if (price.cost < best.cost) best = price;
  }
  return best;
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
        (newest_.back().copying_seconds - newest_.front().copying_seconds) / static_cast<double>(bytes);
  }
  return profile;
}

int WindowChooser::wanted(const OperatorOrdering& ordering) {
  if (newest_.size() < kStepsMin) return 0;
  const StepProfile now = profile();
  const bool is_known = answered_for_ && !has_moved(answered_for_->step_seconds, now.step_seconds) &&
                        !has_moved(answered_for_->slowdown_seconds_per_byte, now.slowdown_seconds_per_byte);
  if (is_known) return price_.slots;
  answered_for_ = now;
  price_ = choose_window(ordering, now, conditions_);
  return price_.slots;
}

}  // namespace evermoe
