#include "recovery/plan/window_choice.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

// Twelve experts of 1,200 bytes, 200 compute-only.
std::vector<StageOperator> experts() {
  std::vector<StageOperator> operators;
  for (int e = 0; e < 12; ++e) {
    operators.push_back({.name = absl::StrCat("expert.", e),
                         .bytes = {1200, 200},
                         .whole = {1200, 200},
                         .expert = e,
                         .tokens = 1});
  }
  return operators;
}

OperatorOrdering twelve_experts() { return OperatorOrdering(experts(), {}); }

WindowConditions conditions(double mtbf_seconds) {
  return {.copy_bytes_per_second = 1e6,
          .recovery = {.stage_share = 0.5, .lag_steps = 1, .mtbf_seconds = mtbf_seconds},
          .slots_max = 12,
          .copies_slow_training = true};
}

// What the planner makes of this length alone.
WindowPlan price_window(const OperatorOrdering& ordering, int slots, const StepProfile& step,
                        const RecoveryProfile& recovery) {
  WindowPlanInput input = plan_input(ordering, step, {.recovery = recovery, .slots_max = slots});
  input.limits.length_min = slots;
  return std::get<WindowPlan>(plan_window(input));
}

TEST(WindowChoiceTest, PricesByHand) {
  const StepProfile step{
      .step_seconds = 1, .copy_bytes_per_second = 4000, .slowdown_seconds_per_byte = 1e-6};
  const WindowPlan price = price_window(twelve_experts(), 3, step, conditions(1000).recovery);
  // The lowest peak is 3, 4 and 5 experts: 3,600 + 1,800, 4,800 + 1,000 and 6,000 bytes; 4,000 fit
  // into a step.
  EXPECT_NEAR(price.stall_share, (1400 + 1800 + 2000) / 3.0 / 4000, 1e-12);
  EXPECT_NEAR(price.slowdown_share, (5400 + 5800 + 6000) / 3.0 * 1e-6, 1e-12);
  // Catch-up: 2 steps less a third of what is frozen, 9 and 5 of 12 experts; again: 1.5 + 1 + 1
  // steps.
  EXPECT_NEAR(price.recovery_seconds, 0.5 * (2 - 14.0 / 12 / 3 + 3.5), 1e-12);
  EXPECT_NEAR(price.cost, price.stall_share + price.slowdown_share + price.recovery_seconds / 1000,
              1e-12);
}

// The choice is the cheapest of all lengths, whatever failures and copies cost.
TEST(WindowChoiceTest, RareFailuresAndCostlyCopiesMakeLongWindows) {
  const OperatorOrdering ordering = twelve_experts();
  for (const double slowdown : {0.0, 1e-7, 1e-6, 1e-5}) {
    int shorter = 12;
    for (const double mtbf : {1e7, 1e5, 1e3, 1e1}) {
      const StepProfile step{
          .step_seconds = 1, .copy_bytes_per_second = 1e6, .slowdown_seconds_per_byte = slowdown};
      const WindowPlan chosen = choose_window(ordering, step, conditions(mtbf));
      for (int slots = 1; slots <= 12; ++slots) {
        EXPECT_LE(chosen.cost, price_window(ordering, slots, step, conditions(mtbf).recovery).cost);
      }
      EXPECT_LE(chosen.window.length(), shorter);
      shorter = chosen.window.length();
      if (slowdown == 0) {
        EXPECT_EQ(chosen.window.length(), 1) << "copies keep up and cost nothing";
      }
    }
  }
}

TEST(WindowChoiceTest, WindowsAreLongEnoughForTheLink) {
  const StepProfile step{.step_seconds = 1, .copy_bytes_per_second = 4000};
  const WindowPlan chosen = choose_window(twelve_experts(), step, conditions(1e9));
  EXPECT_EQ(chosen.stall_share, 0);
  EXPECT_GT(
      price_window(twelve_experts(), chosen.window.length() - 1, step, conditions(1e9).recovery)
          .stall_share,
      0);
}

// The runtime measures shards and orders by the counts of its gates; whoever plans a job from
// outside gives the planner the same operators and popularity. Both come to the same window, and
// lanes capture what was priced.
TEST(WindowChoiceTest, TheForecastComesToTheSameWindow) {
  std::vector<StageOperator> operators = experts();
  operators.push_back({.name = "block", .bytes = {3000, 500}, .whole = {3000, 500}, .tokens = 4});
  for (const auto& [by, rule] : {std::pair(OrderBy::kPopularity, OrderRule::kPopularity),
                                 std::pair(OrderBy::kRatio, OrderRule::kRatio),
                                 std::pair(OrderBy::kExpectedCost, OrderRule::kSavesMost)}) {
    OperatorOrdering ordering(operators, {.by = by});
    ordering.add_step({{5, 1, 9, 2, 2, 7, 30, 1, 4, 4, 8, 3}, std::vector<double>(12, 1)});
    ordering.begin_window();
    for (const double mtbf : {30.0, 1e3, 1e5}) {
      for (const double bandwidth : {2e3, 6e3, 2e4}) {
        const StepProfile step{.step_seconds = 1,
                               .update_seconds = 0.1,
                               .copy_bytes_per_second = bandwidth,
                               .log_bytes = 100};
        const WindowPlan of_runtime = choose_window(ordering, step, conditions(mtbf));
        WindowPlanInput outside;
        outside.operators = ordering.profiles(step.step_seconds, &StageOperator::whole);
        outside.popularity = ordering.popularity();
        outside.rules = {rule};
        outside.step = step;
        outside.recovery = conditions(mtbf).recovery;
        outside.limits.length_max = conditions(mtbf).slots_max;
        outside.limits.stall_share_max = 100;
        const auto of_forecast = std::get<WindowPlan>(plan_window(outside));
        EXPECT_EQ(of_runtime.window, of_forecast.window)
            << "mtbf " << mtbf << ", " << bandwidth << " bytes/s";
        EXPECT_EQ(of_runtime.order, of_forecast.order);
        EXPECT_EQ(of_runtime.cost, of_forecast.cost);
        EXPECT_EQ(of_runtime.window.slots, ordering.window(of_runtime.window.length()).slots)
            << "what lanes do";
      }
    }
  }
}

TEST(WindowChoiceTest, AnswersWhenEnoughIsMeasuredAndWhenItMoved) {
  const OperatorOrdering ordering = twelve_experts();
  WindowChooser chooser(conditions(1e3));
  EXPECT_EQ(chooser.wanted(ordering), 0);
  int64_t bytes = 0;
  double copying = 0;
  const auto steps = [&](int count, double seconds, double per_byte) {
    for (int i = 0; i < count; ++i)
      chooser.add_step(seconds, copying += 1000 * per_byte, bytes += 1000);
  };
  steps(5, 0.1, 0);
  EXPECT_EQ(chooser.wanted(ordering), 1);
  steps(40, 0.11, 0);
  EXPECT_EQ(chooser.wanted(ordering), 1);
  EXPECT_EQ(chooser.plan().window.length(), 1);
  steps(40, 0.1, 1e-6);
  const int longer = chooser.wanted(ordering);
  EXPECT_GT(longer, 1) << "copying costs time";
  steps(40, 0.1, 1.1e-6);
  EXPECT_EQ(chooser.wanted(ordering), longer) << "moved by less than a quarter";
}

}  // namespace
}  // namespace evermoe
