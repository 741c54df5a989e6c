// Oracles: all multiples of small cases; the exact expectation from a linear system.
#include "protection/interval/tier_intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "protection/counter_random_testing.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

TierPlan tiers_planned(const std::vector<CheckpointTier>& tiers,
                       const std::vector<FailureKind>& kinds) {
  return std::get<TierPlan>(plan_tier_intervals(tiers, kinds));
}

const std::vector<CheckpointTier> kTiers{
    {"peer memory", 0.5, 20, 1}, {"local disk", 8, 60, 10}, {"remote", 120, 300, 60}};

TEST(TierIntervalsTest, OneTierIsYoungs) {
  const TierPlan plan = tiers_planned({{"disk", 120, 60, 1}}, {{"any", 7593.75, 0}});
  ASSERT_EQ(plan.intervals.size(), 1u);
  EXPECT_NEAR(plan.intervals[0].work_seconds, 1350, 1e-9);
  EXPECT_NEAR(plan.waste, linear_waste(1350, {120, 7593.75, 60}), 1e-12);
  EXPECT_EQ(plan.reasons[0],
            "disk: a save every 1350.0 s of work; saves cost 8.889 %, its failures (one in 7594 s) "
            "9.679 %");
}

TEST(TierIntervalsTest, EachKindIsPaidByTheWeakestTierThatSurvivesIt) {
  const TierPlan plan =
      tiers_planned(kTiers, {{"process", 3600, 0}, {"node", 36000, 1}, {"site", 3.6e6, 2}});
  ASSERT_EQ(plan.intervals.size(), 3u);
  // Young's own intervals are 60, 759 and 29394 s.
  EXPECT_NEAR(plan.intervals[0].work_seconds, 60, 2);
  EXPECT_EQ(plan.intervals[1].every, 13);
  EXPECT_NEAR(plan.intervals[2].work_seconds, 29394, 800);
  const double alone = std::sqrt(2 * 0.5 / 3600) + 20.0 / 3600 + std::sqrt(2 * 8 / 36000.0) +
                       60 / 36000.0 + std::sqrt(2 * 120 / 3.6e6) + 300 / 3.6e6;
  EXPECT_GE(plan.waste, alone);  // without nesting
  EXPECT_LT(plan.waste, alone * 1.001);
}

TEST(TierIntervalsTest, ATierThatKeepsTooLittleIsLeftOut) {
  // Disk saves that cost nearly what remote ones do, for failures as rare.
  const std::vector<CheckpointTier> tiers{{"disk", 100, 60, 10}, {"remote", 120, 60, 60}};
  const TierPlan plan = tiers_planned(tiers, {{"node", 36000, 0}, {"site", 36000, 1}});
  ASSERT_EQ(plan.intervals.size(), 1u);
  EXPECT_EQ(plan.intervals[0].tier, 1);
  EXPECT_NEAR(plan.intervals[0].work_seconds, std::sqrt(2 * 120 * 18000.0), 1e-9);
  EXPECT_EQ(plan.reasons[0], "disk: not used, saves of 100.0 s cost more than they keep");
}

TEST(TierIntervalsTest, AFailureThatNothingSurvivesIsNamed) {
  const auto answer = plan_tier_intervals(
      kTiers, std::vector<FailureKind>{{"process", 3600, 0}, {"flood", 1e9, 3}});
  EXPECT_EQ(std::get<TierPlanInfeasible>(answer).reason, "no tier survives the failure 'flood'");
}

// PEC section 3.2: the duration of a save bounds the interval (from below; the paper says above).
TEST(TierIntervalsTest, SavesDoNotOverlap) {
  const TierPlan plan = tiers_planned({{"peer memory", 0, 20, 3}, {"remote", 0, 60, 50}},
                                      {{"process", 3600, 0}, {"site", 1e6, 1}});
  ASSERT_EQ(plan.intervals.size(), 2u);
  EXPECT_DOUBLE_EQ(plan.intervals[0].work_seconds, 3);
  EXPECT_EQ(plan.intervals[1].every, 17);
  EXPECT_GE(plan.intervals[1].work_seconds, 50);
}

// The best plan over every subset of tiers and all multiples up to `every_max`, by the same
// formula.
double least_waste(const std::vector<CheckpointTier>& tiers, const std::vector<FailureKind>& kinds,
                   int every_max) {
  double best = INFINITY;
  const int count = static_cast<int>(tiers.size());
  for (int subset = 1; subset < 1 << count; ++subset) {
    std::vector<TierInterval> intervals;
    for (int t = 0; t < count; ++t) {
      if (subset >> t & 1) intervals.push_back({t, 0, 1});
    }
    const bool survives_all = std::ranges::all_of(
        kinds, [&](const FailureKind& kind) { return kind.weakest_tier <= intervals.back().tier; });
    if (!survives_all) continue;
    const int second_max = intervals.size() > 1 ? every_max : 1;
    const int third_max = intervals.size() > 2 ? every_max : 1;
    for (int second = 1; second <= second_max; ++second) {
      for (int third = 1; third <= third_max; ++third) {
        // The waste is a + b / tau + c tau: three values give its minimum.
        const auto waste = [&](double first) {
          double work = first;
          for (size_t i = 0; i < intervals.size(); ++i) {
            work *= i == 1 ? second : i == 2 ? third : 1;
            intervals[i].work_seconds = work;
          }
          return tier_waste(tiers, kinds, intervals);
        };
        const double at1 = waste(1), at2 = waste(2), at4 = waste(4);
        const double c = (4 * at4 - 6 * at2 + 2 * at1) / 6, b = (at1 - at2 + c) * 2;
        double shortest = 0, multiple = 1;
        for (size_t i = 0; i < intervals.size(); ++i) {
          multiple *= i == 1 ? second : i == 2 ? third : 1;
          shortest =
              std::max(shortest, tiers[intervals[i].tier].shortest_interval_seconds / multiple);
        }
        best = std::min(best, waste(std::max(shortest, b > 0 ? std::sqrt(b / c) : 0)));
      }
    }
  }
  return best;
}

TEST(TierIntervalsTest, NoSubsetAndNoMultipleIsBetter) {
  CounterRandom random(1);
  int left_out = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int count = static_cast<int>(random.integer(1, trial % 10 == 0 ? 3 : 2));
    std::vector<CheckpointTier> tiers;
    std::vector<FailureKind> kinds;
    for (int t = 0; t < count; ++t) {
      tiers.push_back({"tier", std::pow(10, 2 * random.real() + t - 1), 50 * random.real() * t,
                       1 + 20 * random.real() * t});
      kinds.push_back({"kind", std::pow(10, 3 + t * 0.7 + random.real()), t});
    }
    const TierPlan plan = tiers_planned(tiers, kinds);
    const int every_max = count < 3 ? 3000 : 100;
    const double best = least_waste(tiers, kinds, every_max);
    ASSERT_NEAR(plan.waste, tier_waste(tiers, kinds, plan.intervals), 1e-12);
    const bool in_reach =
        std::ranges::all_of(plan.intervals, [&](const auto& i) { return i.every <= every_max; });
    ASSERT_TRUE(plan.waste >= best * (1 - 1e-9) || !in_reach) << trial;
    // Two tiers exactly; with three, multiples are improved one at a time.
    ASSERT_LE(plan.waste, best * (1 + (count < 3 ? 1e-9 : 1e-4))) << trial;
    left_out += plan.intervals.size() < tiers.size();
  }
  EXPECT_GT(left_out, 20);
}

// ---- the exact expectation --------------------------------------------------------------------

// Solves a x = b by elimination with pivoting.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c; r < n; ++r) {
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    }
    std::swap(a[c], a[pivot]);
    std::swap(b[c], b[pivot]);
    for (size_t r = c + 1; r < n; ++r) {
      const double factor = a[r][c] / a[c][c];
      for (size_t j = c; j < n; ++j) a[r][j] -= factor * a[c][j];
      b[r] -= factor * b[c];
    }
  }
  for (size_t c = n; c-- > 0;) {
    for (size_t j = c + 1; j < n; ++j) b[c] -= a[c][j] * b[j];
    b[c] /= a[c][c];
  }
  return b;
}

// Expected share lost of one pattern of two tiers: `every` segments of `work` seconds, each ending
// with a save of tier 0, the last one of tier 1 as well. States: at the start of segment i (tier 0
// saved before it), restarting there from tier 0, restarting from tier 1 at segment 0. Kind 0 falls
// to tier 0, kind 1 to tier 1; any failure may come at any time, also in saves and restarts.
double exact_waste_of_two(const std::vector<CheckpointTier>& tiers,
                          const std::vector<FailureKind>& kinds, double work, int every) {
  const double rate0 = 1 / kinds[0].mtbf_seconds, rate1 = 1 / kinds[1].mtbf_seconds,
               rate = rate0 + rate1;
  const int restart0 = every, restart1 = 2 * every,
            states = 2 * every + 1;  // indices of the unknowns
  std::vector<std::vector<double>> a(states, std::vector<double>(states, 0));
  std::vector<double> b(states, 0);
  // time(state) = mean time until a failure or the end + what follows.
  const auto row = [&](int state, double seconds, int next, int after_kind0) {
    const double survives = std::exp(-rate * seconds);
    a[state][state] += 1;
    b[state] = (1 - survives) / rate;
    if (next >= 0) a[state][next] -= survives;
    a[state][after_kind0] -= (1 - survives) * rate0 / rate;
    a[state][restart1] -= (1 - survives) * rate1 / rate;
  };
  for (int i = 0; i < every; ++i) {
    const bool last = i + 1 == every;
    const double seconds = work + tiers[0].save_seconds + (last ? tiers[1].save_seconds : 0);
    // At the beginning of the pattern tier 0 holds the same state as tier 1.
    row(i, seconds, last ? -1 : i + 1, restart0 + i);
    row(restart0 + i, tiers[0].restart_seconds, i, restart0 + i);
  }
  // A kind 0 failure while tier 1 is read: it is read again.
  row(restart1, tiers[1].restart_seconds, 0, restart1);
  return 1 - every * work / solve(a, b)[0];
}

TEST(TierIntervalsTest, FirstOrderMeetsTheExactExpectationWhereTheWasteIsSmall) {
  CounterRandom random(2);
  double worst_gap = 0, worst_regret = 0;
  int cases = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<CheckpointTier> tiers{
        {"memory", 0.2 + 2 * random.real(), 20 * random.real(), 1},
        {"remote", 20 + 100 * random.real(), 100 * random.real(), 1}};
    const std::vector<FailureKind> kinds{{"process", std::pow(10, 3.3 + random.real()), 0},
                                         {"site", std::pow(10, 4.8 + random.real()), 1}};
    const TierPlan plan = tiers_planned(tiers, kinds);
    if (plan.waste > 0.1 || plan.intervals.size() < 2 || plan.intervals[1].every > 120) continue;
    ++cases;
    const double work = plan.intervals[0].work_seconds;
    const int every = static_cast<int>(plan.intervals[1].every);
    const double exact = exact_waste_of_two(tiers, kinds, work, every);
    worst_gap = std::max(worst_gap, std::abs(exact / plan.waste - 1));
    // By the exact law, too, other intervals are worse.
    for (const double factor : {0.7, 0.9, 1.1, 1.4}) {
      const double other = exact_waste_of_two(tiers, kinds, work * factor, every);
      worst_regret = std::max(worst_regret, exact - other);
    }
  }
  EXPECT_GT(cases, 50);
  EXPECT_LT(worst_gap, 0.03);
  EXPECT_LE(worst_regret, 1e-9);
}

TEST(TierIntervalsTest, TheExactOracleIsTheLawForOneKind) {
  // A second kind that never comes, and saves of tier 1 that cost nothing.
  const std::vector<CheckpointTier> tiers{{"disk", 50, 40, 1}, {"remote", 0, 0, 1}};
  const std::vector<FailureKind> kinds{{"any", 600, 0}, {"never", 1e15, 1}};
  for (const double work : {100.0, 400.0}) {
    EXPECT_NEAR(1 - exact_waste_of_two(tiers, kinds, work, 5), efficiency(work, {50, 600, 40}),
                1e-9);
  }
}

}  // namespace
}  // namespace evermoe
