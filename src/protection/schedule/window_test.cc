// Oracles: all contiguous partitions of small cases; MoEtion's Algorithm 1 as printed; the windows
// that follow from the paper's own table of models.
#include "protection/schedule/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "protection/counter_random_testing.h"

namespace evermoe {
namespace {

std::vector<OperatorCost> equal_operators(int count, int64_t full_bytes, int64_t compute_bytes) {
  return std::vector<OperatorCost>(count, {full_bytes, compute_bytes});
}

std::vector<OperatorCost> random_costs(CounterRandom& random, int count_max) {
  std::vector<OperatorCost> costs(random.integer(1, count_max));
  for (OperatorCost& cost : costs) {
    cost.full_bytes = random.integer(0, 30);
    cost.compute_bytes = random.integer(0, cost.full_bytes);
  }
  return costs;
}

// Calls `visit` with every partition of [0, n) into adjacent, non-empty slots.
void for_all_partitions(int n, const std::function<void(const std::vector<Slot>&)>& visit) {
  for (int cuts = 0; cuts < 1 << (n - 1); ++cuts) {
    std::vector<Slot> slots{{0, 0}};
    for (int i = 0; i < n; ++i) {
      slots.back().end = i + 1;
      if (i + 1 < n && (cuts >> i & 1)) slots.push_back({i + 1, i + 1});
    }
    visit(slots);
  }
}

int64_t peak_of(std::span<const OperatorCost> costs, const std::vector<Slot>& slots) {
  int64_t peak = 0;
  for (const Slot slot : slots) peak = std::max(peak, slot_bytes(costs, slot));
  return peak;
}

std::vector<int> slot_of_operator(const std::vector<Slot>& slots) {
  std::vector<int> slot_of;
  for (size_t k = 0; k < slots.size(); ++k) slot_of.resize(slots[k].end, static_cast<int>(k));
  return slot_of;
}

void expect_consistent(std::span<const OperatorCost> costs, const Window& window) {
  int covered = 0;
  int64_t total = 0;
  for (int k = 0; k < window.length(); ++k) {
    ASSERT_EQ(window.slots[k].begin, covered);
    covered = window.slots[k].end;
    ASSERT_EQ(window.step_bytes[k], slot_bytes(costs, window.slots[k]));
    total += window.step_bytes[k];
  }
  ASSERT_EQ(covered, static_cast<int>(costs.size()));
  ASSERT_EQ(window.total_bytes, total);
  ASSERT_EQ(window.peak_bytes, peak_of(costs, window.slots));
}

// MoEtion's FindWindowSize as printed: equal operators, and a loop that never tests 2 or 1.
int algorithm_1_active(int operators, double full, double compute, double budget) {
  int active = operators;
  while (active > 2) {
    if (full * active + compute * (operators - active) <= budget) break;
    --active;
  }
  return active;
}
int moetion_algorithm_1(int operators, double full, double compute, double budget) {
  const int active = algorithm_1_active(operators, full, compute, budget);
  return (operators + active - 1) / active;
}
// Its value for many small operators, b and rho as in closed_form_window_length.
int algorithm_1_closed_form(double b, double rho) {
  return b >= rho ? 1 : static_cast<int>(std::ceil((rho - 1) / (b - 1) - 1e-9));
}

TEST(WindowTest, MinimalAndLatestAmongAllPartitions) {
  CounterRandom random(1);
  int feasible = 0, infeasible = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const auto costs = random_costs(random, 9);
    const int n = static_cast<int>(costs.size());
    const int64_t budget = random.integer(0, 90);
    int fewest = n + 1;
    int64_t lowest_peak = INT64_MAX;
    std::vector<int> latest(n, -1);
    for_all_partitions(n, [&](const std::vector<Slot>& slots) {
      const int64_t peak = peak_of(costs, slots);
      lowest_peak = std::min(lowest_peak, peak);
      if (peak > budget || static_cast<int>(slots.size()) > fewest) return;
      if (static_cast<int>(slots.size()) < fewest) latest.assign(n, -1);
      fewest = static_cast<int>(slots.size());
      const auto slot_of = slot_of_operator(slots);
      for (int i = 0; i < n; ++i) latest[i] = std::max(latest[i], slot_of[i]);
    });
    const auto answer = minimal_window(costs, budget);
    ASSERT_EQ(least_budget_bytes(costs), lowest_peak);
    if (const auto* why = std::get_if<WindowInfeasible>(&answer)) {
      ++infeasible;
      ASSERT_EQ(fewest, n + 1) << "trial " << trial;
      ASSERT_EQ(why->missing_bytes, lowest_peak - budget);
      ASSERT_EQ(slot_bytes(costs, {why->operator_index, why->operator_index + 1}), lowest_peak);
      ASSERT_TRUE(
          std::holds_alternative<Window>(minimal_window(costs, budget + why->missing_bytes)));
      continue;
    }
    ++feasible;
    const Window& window = std::get<Window>(answer);
    expect_consistent(costs, window);
    ASSERT_EQ(window.length(), fewest) << "trial " << trial;
    ASSERT_LE(window.peak_bytes, budget);
    ASSERT_EQ(slot_of_operator(window.slots), latest) << "trial " << trial;
  }
  EXPECT_GT(feasible, 1000);
  EXPECT_GT(infeasible, 1000);
}

TEST(WindowTest, BalancedHasTheLowestPeakOfAllPartitions) {
  CounterRandom random(2);
  for (int trial = 0; trial < 4000; ++trial) {
    const auto costs = random_costs(random, 9);
    const int length = static_cast<int>(random.integer(1, 11));
    int64_t lowest_peak = INT64_MAX;
    for_all_partitions(static_cast<int>(costs.size()), [&](const std::vector<Slot>& slots) {
      if (static_cast<int>(slots.size()) <= length) {
        lowest_peak = std::min(lowest_peak, peak_of(costs, slots));
      }
    });
    const Window window = balanced_window(costs, length);
    expect_consistent(costs, window);
    ASSERT_EQ(window.length(), length);
    ASSERT_EQ(window.peak_bytes, lowest_peak) << "trial " << trial;
  }
}

TEST(WindowTest, EmptySlotsComeFirstAndCostNoPeak) {
  const auto costs = equal_operators(3, 12, 2);
  const Window window = balanced_window(costs, 5);
  EXPECT_EQ(window.slots, (std::vector<Slot>{{0, 0}, {0, 0}, {0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(window.step_bytes, (std::vector<int64_t>{6, 6, 16, 14, 12}));
  EXPECT_EQ(window.peak_bytes, 16);
}

TEST(WindowTest, NoOperatorsIsOneEmptySlot) {
  EXPECT_EQ(std::get<Window>(minimal_window({}, 0)).slots, (std::vector<Slot>{{0, 0}}));
  EXPECT_EQ(std::get<Window>(minimal_window({}, -5)).peak_bytes, 0);
  EXPECT_EQ(balanced_window({}, 3).length(), 3);
}

TEST(WindowTest, InfeasibleNamesTheOperatorAndTheMissingBytes) {
  const std::vector<OperatorCost> large{{10, 2}, {100, 5}, {10, 2}};
  const auto too_large = std::get<WindowInfeasible>(minimal_window(large, 90));
  EXPECT_EQ(too_large.missing_bytes, 12);
  EXPECT_EQ(too_large.operator_index, 1);
  EXPECT_EQ(
      too_large.reason,
      "operator 1 of the capture order needs 100 bytes in full and 2 bytes for the compute-only "
      "snapshots after it, the budget of a step is 90 bytes: 12 bytes missing (the operator alone "
      "exceeds the budget: split it)");
  // Nothing is large here, but there are too many compute-only bytes in all.
  const auto too_many =
      std::get<WindowInfeasible>(minimal_window(equal_operators(100, 12, 2), 200));
  EXPECT_EQ(too_many.missing_bytes, 10);
  EXPECT_EQ(too_many.operator_index, 0);
  EXPECT_EQ(too_many.reason.find("split"), std::string::npos);
}

// MoEtion 3.2: "55 % smaller" is the first slot of six equal operators; the next are 61 % and 67 %.
TEST(WindowPaperTest, SixEqualOperatorsOfTheExample) {
  const auto costs = equal_operators(6, 12, 2);
  const double dense = 72;
  const std::array<double, 3> share{32 / dense, 28 / dense, 24 / dense};
  for (int k = 0; k < 3; ++k) {
    EXPECT_DOUBLE_EQ(static_cast<double>(slot_bytes(costs, {2 * k, 2 * k + 2})) / dense, share[k]);
  }
  EXPECT_NEAR(1 - share[0], 0.556, 0.001);
  EXPECT_NEAR(1 - share[1], 0.611, 0.001);
  EXPECT_NEAR(1 - share[2], 0.667, 0.001);
}

// Algorithm 1 stops at two operators without testing them, so what it returns need not fit.
TEST(WindowPaperTest, Algorithm1CanExceedTheBudgetInSilence) {
  const auto costs = equal_operators(6, 12, 2);
  EXPECT_EQ(moetion_algorithm_1(6, 12, 2, 25), 3);
  EXPECT_EQ(slot_bytes(costs, {0, 2}), 32);  // budget 25
  EXPECT_EQ(std::get<Window>(minimal_window(costs, 25)).length(), 5);
  EXPECT_TRUE(std::holds_alternative<WindowInfeasible>(minimal_window(costs, 21)));
}

TEST(WindowPaperTest, NeverLongerThanAlgorithm1OnEqualOperators) {
  CounterRandom random(4);
  int shorter = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int n = static_cast<int>(random.integer(1, 60));
    const int64_t compute = random.integer(1, 4), full = compute * random.integer(2, 8);
    const int64_t budget = random.integer(full + (n - 1) * compute, full * n);
    const auto answer = minimal_window(equal_operators(n, full, compute), budget);
    const int minimal = std::get<Window>(answer).length();
    const int active = algorithm_1_active(n, full, compute, budget);
    if (full * active + compute * (n - active) > budget) continue;  // the end it never tested
    const int printed = moetion_algorithm_1(n, full, compute, budget);
    ASSERT_LE(minimal, printed);
    shorter += minimal < printed;
  }
  EXPECT_GT(shorter, 300);
}

struct ClosedFormCase {
  double b;
  int minimal, moetion_algorithm_1;
};

// Full = 6 compute. b = 11/6 is the lower edge of Algorithm 1's window of 6.
TEST(WindowPaperTest, ClosedFormAgainstAlgorithm1) {
  const int n = 12000;
  const std::vector<ClosedFormCase> cases{{2, 4, 5}, {11 / 6.0, 5, 6}, {1.4, 7, 13}, {1.1, 14, 50}};
  for (const auto& [b, minimal, printed] : cases) {
    EXPECT_EQ(closed_form_window_length(b, 6), minimal) << b;
    EXPECT_EQ(algorithm_1_closed_form(b, 6), printed) << b;
    const double budget = b * n;
    const auto window = minimal_window(equal_operators(n, 6, 1), std::llround(budget));
    EXPECT_EQ(std::get<Window>(window).length(), minimal) << b;
    EXPECT_EQ(moetion_algorithm_1(n, 6, 1, budget + 1e-6), printed) << b;
  }
}

TEST(WindowTest, ClosedFormIsTheLimitOfManySmallOperators) {
  CounterRandom random(5);
  int equal = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int n = 4000;
    const int64_t compute = random.integer(1, 5);
    const int64_t full = compute * random.integer(2, 9);
    const int64_t budget = random.integer(compute * n * 102 / 100, full * n);
    const auto window = minimal_window(equal_operators(n, full, compute), budget);
    const double b = static_cast<double>(budget) / static_cast<double>(compute * n);
    const int limit = *closed_form_window_length(b, static_cast<double>(full) / compute);
    const int length = std::get<Window>(window).length();
    // Whole operators can only need more: a slot wastes less than one operator.
    ASSERT_GE(length, limit);
    ASSERT_LE(length, limit + 1) << b;
    equal += length == limit;
  }
  EXPECT_GT(equal, 380);
  EXPECT_EQ(closed_form_window_length(6, 6), 1);
  EXPECT_EQ(closed_form_window_length(7, 6), 1);
  EXPECT_EQ(closed_form_window_length(1, 6), std::nullopt);
  EXPECT_EQ(closed_form_window_length(0.5, 6), std::nullopt);
}

// The models of MoEtion's Table 3 (12 bytes full, 2 compute-only per parameter, 12 nodes) at
// several bandwidths per node: Algorithm 1 / minimal window.
TEST(WindowPaperTest, WindowsOfTheEvaluatedModels) {
  struct Model {
    double step_seconds, parameters_1e9;
  };
  const std::array<Model, 4> models{{{1.7, 2.9}, {2.1, 7.3}, {2.5, 14.3}, {2.9, 16.4}}};
  struct Row {
    double gb_per_second;
    std::array<std::array<int, 2>, 4> windows;
  };
  const std::vector<Row> rows{
      {200, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},     {25, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {10, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},      {5, {{{1, 1}, {1, 1}, {2, 2}, {2, 2}}}},
      {2.0, {{{1, 1}, {3, 2}, {5, 4}, {5, 4}}}},     {1.8, {{{1, 1}, {3, 3}, {6, 5}, {6, 5}}}},
      {1.0, {{{2, 2}, {7, 5}, {103, 17}, {82, 16}}}}};
  for (const Row& row : rows) {
    for (size_t m = 0; m < models.size(); ++m) {
      const double b =
          12 * row.gb_per_second * models[m].step_seconds / (2 * models[m].parameters_1e9);
      EXPECT_EQ(algorithm_1_closed_form(b, 6), row.windows[m][0])
          << row.gb_per_second << " model " << m;
      EXPECT_EQ(closed_form_window_length(b, 6), row.windows[m][1])
          << row.gb_per_second << " model " << m;
    }
  }
}

// With the dense copy time that Gemini's stalls at 2 h imply: 2, 3, 4, 6 by Algorithm 1.
TEST(WindowPaperTest, WindowsFromGeminisStalls) {
  const std::array<double, 4> step{1.7, 2.1, 2.5, 2.9}, stall{0.92, 1.92, 3.56, 6.44};
  const std::array<int, 4> printed{2, 3, 4, 6}, minimal{2, 3, 3, 5};
  for (int m = 0; m < 4; ++m) {
    const double b = 6 * step[m] / (step[m] + stall[m]);
    EXPECT_EQ(algorithm_1_closed_form(b, 6), printed[m]);
    EXPECT_EQ(closed_form_window_length(b, 6), minimal[m]);
  }
}

// One aggregate bandwidth reproduces six of the nine windows of Tables 3 and 7, not more.
TEST(WindowPaperTest, OneBandwidthGivesSixOfNinePrintedWindows) {
  struct Case {
    double step, parameters_1e9, compute, full;
    int printed;
  };
  const std::vector<Case> cases{{1.7, 2.9, 2, 12, 3},  {2.1, 7.3, 2, 12, 3}, {2.5, 14.3, 2, 12, 5},
                                {2.9, 16.4, 2, 12, 6}, {3.0, 16.4, 2, 6, 3}, {2.3, 16.4, 1, 12, 6},
                                {2.1, 16.4, 1, 10, 4}, {1.9, 16.4, 1, 5, 3}, {1.7, 16.4, 1, 4, 3}};
  for (double bandwidth = 15; bandwidth < 30; bandwidth += 0.1) {
    int hits = 0;
    for (const Case& c : cases) {
      const double b = bandwidth * c.step / (c.compute * c.parameters_1e9);
      hits += b > 1 && algorithm_1_closed_form(b, c.full / c.compute) == c.printed;
    }
    EXPECT_LE(hits, 6) << bandwidth;
    if (bandwidth > 21.05 && bandwidth < 21.75) {
      EXPECT_EQ(hits, 6) << bandwidth;
    }
  }
}

}  // namespace
}  // namespace evermoe
