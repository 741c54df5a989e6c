// Oracles: the cost formula by hand, and all permutations and partitions of small cases.
#include "protection/schedule/window_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "protection/counter_random_testing.h"

namespace evermoe {
namespace {

// Six equal experts of 12 and 2 bytes, a step of 1 s with 0.1 s update, 0.2 + 0.1 s per operator.
WindowPlanInput six_experts(double copy_bytes_per_second) {
  WindowPlanInput input;
  for (int e = 0; e < 6; ++e) {
    input.operators.push_back(
        {.expert = e, .cost = {12, 2}, .forward_seconds = 0.2, .gradient_seconds = 0.1});
    input.popularity.push_back(e);
  }
  input.step = {
      .step_seconds = 1, .update_seconds = 0.1, .copy_bytes_per_second = copy_bytes_per_second};
  input.recovery = {.detect_seconds = 2,
                    .restart_seconds = 5,
                    .load_seconds = 1,
                    .stage_share = 0.5,
                    .lag_steps = 1,
                    .mtbf_seconds = 600};
  return input;
}

WindowPlan planned(const WindowPlanInput& input) {
  auto answer = plan_window(input);
  if (auto* why = std::get_if<WindowPlanInfeasible>(&answer)) {
    ADD_FAILURE() << why->reason;
    return {};
  }
  return std::get<WindowPlan>(std::move(answer));
}

TEST(WindowPlanTest, CostTermsByHand) {
  const WindowPlanInput input = six_experts(30);  // budget 27 bytes
  EXPECT_EQ(step_budget_bytes(input.step), 27);
  const CaptureOrder order{0, 1, 2, 3, 4, 5};
  const Window window = balanced_window(costs_in_order(input.operators, order), 3);
  ASSERT_EQ(window.step_bytes, (std::vector<int64_t>{32, 28, 24}));
  // Over by 5 and 1 bytes in 3 steps, at 30 bytes/s.
  EXPECT_NEAR(mean_stall_share(window, input.step), 6 / 3.0 / 30, 1e-15);
  // F = 1.8 s; catch-up 2 F - (0 + 0 + 1 + 1 + 2 + 2) 0.1; again (1.5 + 1 + 1) F; half of it.
  EXPECT_NEAR(expected_recovery_seconds(input.operators, order, window, input.recovery),
              8 + 0.5 * (2 * 1.8 - 0.6 + 3.5 * 1.8), 1e-12);
  // Two own windows of 84 bytes, twice that for two others, logs of 2 x 3 + 1 + 1 steps.
  const MemoryUse use = memory_use(window, 2, 10, 0.5);
  EXPECT_EQ(use.own_bytes, 168);
  EXPECT_EQ(use.copies_bytes, 336);
  EXPECT_EQ(use.log_bytes, 80);
  EXPECT_EQ(use.total_bytes(), 584);
}

// Section 3.6: replication without lag and nothing frozen gives exactly 3 W / 2 steps.
TEST(WindowPlanPaperTest, ExpectedRecoveryIsThreeHalvesOfTheWindow) {
  std::vector<OperatorProfile> operators(12,
                                         {.expert = 0, .cost = {12, 2}, .forward_seconds = 0.25});
  CaptureOrder order(12);
  std::iota(order.begin(), order.end(), 0);
  for (int length = 1; length <= 12; ++length) {
    const Window window = balanced_window(costs_in_order(operators, order), length);
    EXPECT_NEAR(expected_recovery_seconds(operators, order, window, {}), 1.5 * length * 3, 1e-12);
  }
}

TEST(WindowPlanTest, LogsShareTheLink) {
  WindowPlanInput input = six_experts(100);
  EXPECT_EQ(step_budget_bytes(input.step), 90);
  input.step.log_bytes = 40;
  EXPECT_EQ(step_budget_bytes(input.step), 50);
  EXPECT_EQ(planned(input).window.length(), 2);
  input.step.log_bytes = 100;
  EXPECT_EQ(step_budget_bytes(input.step), -10);
  EXPECT_GT(planned(input).stall_share, 0.1);
}

TEST(WindowPlanTest, AFastLinkNeedsNoSparseWindow) {
  const WindowPlan plan = planned(six_experts(1000));
  EXPECT_EQ(plan.window.length(), 1);
  EXPECT_EQ(plan.stall_share, 0);
  EXPECT_EQ(plan.copies, 2);
  ASSERT_FALSE(plan.reasons.empty());
  EXPECT_EQ(plan.reasons[0],
            "order by popularity, window length 1: cost 1.708 % = 0.000 % stall + recovery of "
            "10.25 s per failure");
}

TEST(WindowPlanTest, RareFailuresTakeLongWindowsAndFrequentOnesStalls) {
  WindowPlanInput input = six_experts(30);
  input.recovery.mtbf_seconds = 1e7;
  EXPECT_EQ(planned(input).stall_share, 0);
  const int without_stall = planned(input).window.length();
  input.recovery.mtbf_seconds = 30;
  EXPECT_LT(planned(input).window.length(), without_stall);
  EXPECT_GT(planned(input).stall_share, 0);
}

TEST(WindowPlanTest, TheWorldsLengthIsKept) {
  WindowPlanInput input = six_experts(1000);
  input.limits.length_min = input.limits.length_max = 4;
  EXPECT_EQ(planned(input).window.length(), 4);
}

TEST(WindowPlanTest, NoStallAllowedAndNoneAvoidable) {
  WindowPlanInput input = six_experts(20);  // budget 18 bytes, the first slot of one is 22
  input.limits.stall_share_max = 0;
  const auto why = std::get<WindowPlanInfeasible>(plan_window(input));
  EXPECT_EQ(why.missing_bytes, 4);
  EXPECT_NE(why.reason.find("4 bytes missing"), std::string::npos) << why.reason;
  EXPECT_NE(why.reason.find("the link moves 18 bytes"), std::string::npos) << why.reason;
  // With that much more there is one.
  input.step.log_bytes = -4;
  EXPECT_EQ(planned(input).window.peak_bytes, 22);
}

TEST(WindowPlanTest, MissingBytesOfAStallLimitAreTheLeastThatHelp) {
  CounterRandom random(5);
  int cases = 0;
  for (int trial = 0; trial < 300; ++trial) {
    WindowPlanInput input = six_experts(static_cast<double>(random.integer(5, 25)));
    input.limits.stall_share_max = 0.05 * random.real();
    const auto answer = plan_window(input);
    const auto* why = std::get_if<WindowPlanInfeasible>(&answer);
    if (!why) continue;
    ++cases;
    input.step.log_bytes = -why->missing_bytes;
    ASSERT_TRUE(std::holds_alternative<WindowPlan>(plan_window(input)));
    input.step.log_bytes = -why->missing_bytes + 1;
    ASSERT_FALSE(std::holds_alternative<WindowPlan>(plan_window(input)));
  }
  EXPECT_GT(cases, 50);
}

// A longer window needs more memory, not less: its snapshots hold more compute-only bytes and its
// logs reach further back. What fits a tight budget is a shorter window that stalls, or fewer
// copies.
TEST(WindowPlanTest, TightMemoryTakesAShorterWindowThenFewerCopies) {
  WindowPlanInput input =
      six_experts(32.3);  // 28 bytes per step beside the log: 4 steps without stall
  input.step.log_bytes = 1;
  input.limits.stall_share_max = 2;
  input.recovery.mtbf_seconds = 1e7;
  input.recovery.lag_steps = 0;
  const WindowPlan roomy = planned(input);
  EXPECT_EQ(roomy.window.length(), 4);
  EXPECT_EQ(roomy.stall_share, 0);

  input.limits.memory_budget_bytes = roomy.memory.total_bytes() - 1;
  const WindowPlan tight = planned(input);
  EXPECT_EQ(tight.copies, 2);
  EXPECT_LT(tight.window.length(), 4);
  EXPECT_GT(tight.stall_share, 0);
  EXPECT_LE(tight.memory.total_bytes(), input.limits.memory_budget_bytes);

  // W = 1 holds 2 x 72 own bytes, 4 x 72 for others, 3 bytes of logs.
  input.limits.memory_budget_bytes = 434;
  const WindowPlan fewer = planned(input);
  EXPECT_EQ(fewer.copies, 1);
  EXPECT_EQ(
      fewer.reasons.back(),
      "copies 1 instead of 2: window length 1 with copies 2 holds 144 bytes of own snapshots + 288 "
      "bytes "
      "of copies for others + 3 bytes of logs = 435 bytes of host memory, the budget is 434 bytes");

  input.limits.memory_budget_bytes = 200;
  const auto why = std::get<WindowPlanInfeasible>(plan_window(input));
  EXPECT_EQ(why.missing_bytes, 91);
  EXPECT_EQ(
      why.reason,
      "window length 1 with copies 1 holds 144 bytes of own snapshots + 144 bytes of copies for "
      "others + "
      "3 bytes of logs = 291 bytes of host memory, the budget is 200 bytes: 91 bytes missing");
}

// Copies must reach the peers as fast as they are made, on average.
TEST(WindowPlanTest, CopiesMustKeepUpWithTheNetwork) {
  WindowPlanInput input = six_experts(1000);
  input.step.peer_bytes_per_second =
      60;  // W = 1 needs 144 bytes per step, W = 3 56 with two copies
  const WindowPlan plan = planned(input);
  EXPECT_EQ(plan.window.length(), 3);
  EXPECT_EQ(plan.copies, 2);
  input.limits.length_max = 2;
  EXPECT_EQ(planned(input).copies, 1);
  input.limits.copies_min = 2;
  const auto why = std::get<WindowPlanInfeasible>(plan_window(input));
  EXPECT_EQ(why.missing_bytes, 18);  // W = 2: 42 + 36 bytes, twice, in two steps
}

// ---- brute force --------------------------------------------------------------------------------

WindowPlanInput random_input(CounterRandom& random, bool equal_sizes) {
  WindowPlanInput input;
  const int n = random.integer(0, 30) == 0 ? 6 : static_cast<int>(random.integer(2, 5));
  input.limits.length_max = n;
  int64_t dense = 0;
  for (int i = 0; i < n; ++i) {
    const int64_t full = equal_sizes ? 60 : 10 * random.integer(1, 12);
    input.operators.push_back({.expert = random.integer(0, 3) == 0 ? -1 : i,
                               .cost = {full, full / 6},
                               .forward_seconds = 0.05 + 0.1 * random.real(),
                               .gradient_seconds = 0.1 * random.real()});
    input.popularity.push_back(input.operators[i].gradient_seconds * (0.7 + 0.6 * random.real()));
    dense += full;
  }
  const double share = 0.3 + 0.9 * random.real();  // of a dense snapshot that a step can copy
  input.step = {.step_seconds = 1, .copy_bytes_per_second = share * static_cast<double>(dense)};
  input.recovery = {.restart_seconds = 1, .mtbf_seconds = std::pow(10, 1.5 + 2.5 * random.real())};
  return input;
}

struct BruteForce {
  double any = INFINITY;       // least J
  double no_stall = INFINITY;  // least J of windows within the budget
};

// Every way to cut [0, n) into `length` adjacent slots, empty ones included.
void for_all_slots(int n, int length, std::vector<Slot>& slots,
                   const std::function<void()>& visit) {
  const int begin = slots.empty() ? 0 : slots.back().end;
  if (static_cast<int>(slots.size()) + 1 == length) {
    slots.push_back({begin, n});
    visit();
    slots.pop_back();
    return;
  }
  for (int end = begin; end <= n; ++end) {
    slots.push_back({begin, end});
    for_all_slots(n, length, slots, visit);
    slots.pop_back();
  }
}

BruteForce brute_force(const WindowPlanInput& input) {
  const int n = static_cast<int>(input.operators.size());
  BruteForce best;
  CaptureOrder order(n);
  std::iota(order.begin(), order.end(), 0);
  do {
    const auto costs = costs_in_order(input.operators, order);
    for (int length = 1; length <= input.limits.length_max; ++length) {
      Window window;
      for_all_slots(n, length, window.slots, [&] {
        window.step_bytes.clear();
        for (const Slot slot : window.slots) window.step_bytes.push_back(slot_bytes(costs, slot));
        const double stall = mean_stall_share(window, input.step);
        const double cost =
            stall + expected_recovery_seconds(input.operators, order, window, input.recovery) /
                        input.recovery.mtbf_seconds;
        best.any = std::min(best.any, cost);
        if (stall == 0) best.no_stall = std::min(best.no_stall, cost);
      });
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

// Equal operators, no stall allowed: the planner finds a window whenever there is one, and what
// balanced slots lose to filling the last ones first is small (measured: 0.15 % on average, 2.2 %
// at worst).
TEST(WindowPlanTest, EqualOperatorsWithoutStallComeCloseToTheBestPermutation) {
  CounterRandom random(1);
  int feasible = 0;
  double sum = 0, worst = 1;
  for (int trial = 0; trial < 150; ++trial) {
    WindowPlanInput input = random_input(random, true);
    input.limits.stall_share_max = 0;
    const BruteForce best = brute_force(input);
    const auto answer = plan_window(input);
    ASSERT_EQ(std::holds_alternative<WindowPlan>(answer), std::isfinite(best.no_stall));
    const auto* const plan = std::get_if<WindowPlan>(&answer);
    if (plan == nullptr) continue;
    ++feasible;
    const double ratio = plan->cost / best.no_stall;
    ASSERT_GE(ratio, 1 - 1e-12);
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  std::printf("equal operators: %.4f of the least cost on average, %.3f at worst\n", sum / feasible,
              worst);
  EXPECT_GT(feasible, 75);
  EXPECT_LT(sum / feasible, 1.01);
  EXPECT_LT(worst, 1.05);
}

// Unequal operators, few and coarse, against every permutation and every window. Orders that lanes
// agree on without a message know no budget: where only another order avoids stalls and failures
// are rare, they cost far more. (Measured: 228 of 300 within 1 %; the worst of all costs 88 times
// the least.)
TEST(WindowPlanTest, UnequalOperatorsMostlyComeCloseToTheBestPermutation) {
  CounterRandom random(2);
  double sum = 0, worst = 1;
  int within_one_percent = 0;
  const int trials = 300;
  for (int trial = 0; trial < trials; ++trial) {
    const WindowPlanInput input = random_input(random, false);
    const double ratio = planned(input).cost / brute_force(input).any;
    ASSERT_GE(ratio, 1 - 1e-12);
    sum += ratio;
    worst = std::max(worst, ratio);
    within_one_percent += ratio < 1.01;
  }
  std::printf("unequal operators: %.4f on average, %.3f at worst, %d of %d within 1 %%\n",
              sum / trials, worst, within_one_percent, trials);
  EXPECT_GE(within_one_percent, 220);
}

// A stage's order knows no budget, so a window that never stalls may be missed; a stall is then
// priced, and length makes up for most of it.
TEST(WindowPlanTest, NoStallMostlyWhereAnyPermutationAvoidsIt) {
  CounterRandom random(3);
  int possible = 0, found = 0;
  for (int trial = 0; trial < 150; ++trial) {
    WindowPlanInput input = random_input(random, false);
    input.limits.stall_share_max = 0;
    const bool exists = std::isfinite(brute_force(input).no_stall);
    const bool is_found = std::holds_alternative<WindowPlan>(plan_window(input));
    ASSERT_TRUE(exists || !is_found) << "trial " << trial;
    possible += exists;
    found += is_found;
  }
  std::printf("no stall: %d of %d\n", found, possible);
  EXPECT_GT(possible, 50);
  EXPECT_GE(found, possible * 9 / 10);
}

}  // namespace
}  // namespace evermoe
