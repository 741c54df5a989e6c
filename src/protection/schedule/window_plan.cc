#include "protection/schedule/window_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace evermoe {
namespace {

const char* to_string(OrderKind kind) {
  return kind == OrderKind::kPopularity ? "popularity" : "ratio";
}

// Over-budget bytes of a mean step, as a share of the step's time.
double stall_share_at(const Window& window, const StepProfile& step, int64_t budget_bytes) {
  double over_bytes = 0;
  for (const int64_t bytes : window.step_bytes) {
    over_bytes += static_cast<double>(std::max<int64_t>(0, bytes - budget_bytes));
  }
  return over_bytes / window.length() / step.copy_bytes_per_second / step.step_seconds;
}

// What runs again in a catch-up.
std::span<const OperatorProfile> whole_operators(const WindowPlanInput& input) {
  return input.whole.empty() ? input.operators : input.whole;
}

WindowPlan priced_plan(const WindowPlanInput& input, StageWindow of_stage) {
  WindowPlan plan{.order = std::move(of_stage.order), .order_kind = of_stage.kind};
  plan.window =
      window_with_slots(costs_in_order(input.operators, plan.order), std::move(of_stage.slots));
  plan.stall_share = mean_stall_share(plan.window, input.step);
  plan.slowdown_share = mean_slowdown_share(plan.window, input.step);
  plan.recovery_seconds =
      expected_recovery_seconds(whole_operators(input), plan.order, plan.window, input.recovery);
  plan.cost =
      plan.stall_share + plan.slowdown_share + plan.recovery_seconds / input.recovery.mtbf_seconds;
  return plan;
}

// Every rule and length, without regard to limits other than the length's. Shorter windows and the
// first rules come first, so that they win ties.
std::vector<WindowPlan> all_plans(const WindowPlanInput& input) {
  std::vector<WindowPlan> plans;
  for (int length = input.limits.length_min; length <= input.limits.length_max; ++length) {
    for (const OrderRule rule : input.rules) {
      plans.push_back(
          priced_plan(input, stage_window(whole_operators(input), input.popularity, rule, length)));
    }
  }
  return plans;
}

// Why a plan is not admitted; later limits are looked at only if the earlier ones hold.
struct Shortfall {
  int limits_held = 0;
  int64_t missing_bytes = 0;
  std::string reason;
};

std::optional<Shortfall> stall_shortfall(const WindowPlan& plan, const WindowPlanInput& input) {
  const double share_max = input.limits.stall_share_max;
  if (plan.stall_share <= share_max) return std::nullopt;
  const int64_t budget = step_budget_bytes(input.step);
  int64_t low = 0,
          high = plan.window.peak_bytes - budget;  // the least sufficient is in (low, high]
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (stall_share_at(plan.window, input.step, budget + middle) <= share_max ? high : low) = middle;
  }
  return Shortfall{
      0, high,
      absl::StrFormat("window length %d copies up to %d bytes in a step, the link moves %d bytes "
                      "beside %d bytes of logs "
                      "before the update: steps would be %.2f %% longer, allowed are %.2f %%",
                      plan.window.length(), plan.window.peak_bytes, budget, input.step.log_bytes,
                      100 * plan.stall_share, 100 * share_max)};
}

std::optional<Shortfall> peer_shortfall(const WindowPlan& plan, int copies,
                                        const WindowPlanInput& input) {
  const double moved = input.step.peer_bytes_per_second * input.step.step_seconds;
  const double needed =
      static_cast<double>(plan.window.total_bytes) * copies / plan.window.length();
  if (input.step.peer_bytes_per_second == 0 || needed <= moved) return std::nullopt;
  return Shortfall{1, static_cast<int64_t>(std::ceil(needed - moved)),
                   absl::StrFormat("copies %d at window length %d send %.0f bytes per step on "
                                   "average, %.0f bytes reach the peers in a step",
                                   copies, plan.window.length(), needed, moved)};
}

std::optional<Shortfall> memory_shortfall(const WindowPlan& plan, int copies,
                                          const WindowPlanInput& input) {
  const MemoryUse use =
      memory_use(plan.window, copies, input.step.log_bytes, input.recovery.lag_steps);
  const int64_t budget = input.limits.memory_budget_bytes;
  if (use.total_bytes() <= budget) return std::nullopt;
  return Shortfall{
      2, use.total_bytes() - budget,
      absl::StrFormat("window length %d with copies %d holds %d bytes of own snapshots + %d bytes "
                      "of copies for others + "
                      "%d bytes of logs = %d bytes of host memory, the budget is %d bytes",
                      plan.window.length(), copies, use.own_bytes, use.copies_bytes, use.log_bytes,
                      use.total_bytes(), budget)};
}

std::optional<Shortfall> shortfall(const WindowPlan& plan, int copies,
                                   const WindowPlanInput& input) {
  if (auto stall = stall_shortfall(plan, input)) return stall;
  if (auto peers = peer_shortfall(plan, copies, input)) return peers;
  return memory_shortfall(plan, copies, input);
}

// The shortfall that is nearest to being none.
bool nearer(const Shortfall& a, const Shortfall& b) {
  if (a.limits_held != b.limits_held) return a.limits_held > b.limits_held;
  return a.missing_bytes < b.missing_bytes;
}

struct Choice {
  const WindowPlan* best = nullptr;
  const WindowPlan* best_of_other_order = nullptr;
  Shortfall nearest{-1, 0, ""};  // if there is no best
};

Choice choose(const std::vector<WindowPlan>& plans, int copies, const WindowPlanInput& input) {
  Choice choice;
  std::array<const WindowPlan*, 2> best{};
  for (const WindowPlan& plan : plans) {
    if (const auto why = shortfall(plan, copies, input)) {
      if (choice.nearest.limits_held < 0 || nearer(*why, choice.nearest)) choice.nearest = *why;
      continue;
    }
    const WindowPlan*& of_order = best[static_cast<size_t>(plan.order_kind)];
    if (!of_order || plan.cost < of_order->cost) of_order = &plan;
    if (!choice.best || plan.cost < choice.best->cost) choice.best = &plan;
  }
  if (choice.best)
    choice.best_of_other_order = best[1 - static_cast<size_t>(choice.best->order_kind)];
  return choice;
}

std::string cost_sentence(const WindowPlan& plan) {
  return absl::StrFormat(
      "order by %s, window length %d: cost %.3f %% = %.3f %% stall + recovery of %.2f s per "
      "failure",
      to_string(plan.order_kind), plan.window.length(), 100 * plan.cost, 100 * plan.stall_share,
      plan.recovery_seconds);
}

std::vector<std::string> reasons_for(const Choice& choice, int copies,
                                     const std::optional<Shortfall>& given_up,
                                     const WindowPlanInput& input) {
  std::vector<std::string> reasons{cost_sentence(*choice.best)};
  if (choice.best_of_other_order)
    reasons.push_back("instead of " + cost_sentence(*choice.best_of_other_order));
  const int64_t budget = step_budget_bytes(input.step);
  if (choice.best->window.peak_bytes > budget) {
    reasons.push_back(
        absl::StrFormat("the largest step copies %d bytes, %d more than the link moves unnoticed",
                        choice.best->window.peak_bytes, choice.best->window.peak_bytes - budget));
  }
  if (given_up) {
    reasons.push_back(absl::StrFormat("copies %d instead of %d: %s", copies, input.limits.copies,
                                      given_up->reason));
  }
  return reasons;
}

void check_input(const WindowPlanInput& input) {
  const WindowLimits& limits = input.limits;
  CHECK(input.step.step_seconds > 0 && input.step.copy_bytes_per_second > 0 &&
        input.recovery.mtbf_seconds > 0);
  CHECK(1 <= limits.length_min && limits.length_min <= limits.length_max);
  CHECK(0 <= limits.copies_min && limits.copies_min <= limits.copies);
}

}  // namespace

StageWindow stage_window(std::span<const OperatorProfile> whole, std::span<const double> popularity,
                         OrderRule rule, int length) {
  const auto in_order = [&](OrderKind kind, CaptureOrder order) {
    std::vector<Slot> slots = balanced_window(costs_in_order(whole, order), length).slots;
    return StageWindow{kind, std::move(order), std::move(slots)};
  };
  StageWindow by_ratio = in_order(OrderKind::kRatio, order_by_ratio(whole));
  if (rule == OrderRule::kRatio || popularity.empty()) return by_ratio;
  StageWindow by_popularity =
      in_order(OrderKind::kPopularity, order_by_popularity(whole, popularity));
  if (rule == OrderRule::kPopularity) return by_popularity;
  const auto saved = [&](const StageWindow& window) {
    return frozen_seconds_saved(
        whole, window.order, window_with_slots(costs_in_order(whole, window.order), window.slots));
  };
  return saved(by_popularity) > saved(by_ratio) ? by_popularity : by_ratio;
}

int64_t step_budget_bytes(const StepProfile& step) {
  const double seconds = step.step_seconds - step.update_seconds;
  return static_cast<int64_t>(std::floor(seconds * step.copy_bytes_per_second)) - step.log_bytes;
}

double mean_stall_share(const Window& window, const StepProfile& step) {
  return stall_share_at(window, step, step_budget_bytes(step));
}

double mean_slowdown_share(const Window& window, const StepProfile& step) {
  return static_cast<double>(window.total_bytes) / window.length() *
         step.slowdown_seconds_per_byte / step.step_seconds;
}

double expected_recovery_seconds(std::span<const OperatorProfile> operators,
                                 const CaptureOrder& order, const Window& window,
                                 const RecoveryProfile& recovery) {
  double full_step = 0;
  for (const OperatorProfile& profile : operators)
    full_step += profile.forward_seconds + profile.gradient_seconds;
  const double length = window.length();
  const double catch_up = (length - 1) * full_step - frozen_seconds_saved(operators, order, window);
  const double again = (length / 2 + 1 + recovery.lag_steps) * full_step;
  return recovery.detect_seconds + recovery.restart_seconds + recovery.load_seconds +
         recovery.stage_share * (catch_up + again);
}

MemoryUse memory_use(const Window& window, int copies, int64_t log_bytes, double lag_steps) {
  const int64_t log_steps = 2 * window.length() + 1 + static_cast<int64_t>(std::ceil(lag_steps));
  return {.own_bytes = 2 * window.total_bytes,
          .copies_bytes = 2 * window.total_bytes * copies,
          .log_bytes = log_bytes * log_steps};
}

std::variant<WindowPlan, WindowPlanInfeasible> plan_window(const WindowPlanInput& input) {
  check_input(input);
  const std::vector<WindowPlan> plans = all_plans(input);
  std::optional<Shortfall> given_up;
  for (int copies = input.limits.copies; copies >= input.limits.copies_min; --copies) {
    const Choice choice = choose(plans, copies, input);
    if (!choice.best) {
      given_up = choice.nearest;
      continue;
    }
    WindowPlan plan = *choice.best;
    plan.copies = copies;
    plan.memory = memory_use(plan.window, copies, input.step.log_bytes, input.recovery.lag_steps);
    plan.reasons = reasons_for(choice, copies, given_up, input);
    return plan;
  }
  return WindowPlanInfeasible{
      given_up->missing_bytes,
      absl::StrFormat("%s: %d bytes missing", given_up->reason, given_up->missing_bytes)};
}

}  // namespace evermoe
