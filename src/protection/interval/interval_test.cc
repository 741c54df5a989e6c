// The chapter's numbers, with its slips corrected; the law by simulation.
#include "protection/interval/interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "protection/counter_random_testing.h"

namespace evermoe {
namespace {

// 180 days over 2048 GPUs; 10 TB at 80 GB/s, rounded by the chapter to 120 s.
const IntervalCosts kChapter{.save_seconds = 120, .mtbf_seconds = 180 * 86400 / 2048.0};

TEST(IntervalPaperTest, IntervalsOfTheChapter) {
  EXPECT_EQ(kChapter.mtbf_seconds, 7593.75);
  EXPECT_EQ(young_interval_seconds(kChapter), 1350);  // printed 1351
  EXPECT_EQ(daly_first_order_interval_seconds(kChapter), 1230);
  EXPECT_NEAR(daly_higher_order_interval_seconds(kChapter), 1271.185, 1e-3);
  EXPECT_NEAR(best_interval_seconds(kChapter), 1271.214, 5e-4);
  EXPECT_NEAR(best_interval_seconds(kChapter) + 120, 1391.2, 0.05);
  EXPECT_NEAR(linear_waste(1350, kChapter), 0.17778, 1e-5);
}

TEST(IntervalPaperTest, EfficiencyAtTheOptimumAndAtYoungsValue) {
  EXPECT_NEAR(efficiency(best_interval_seconds(kChapter), kChapter), 0.83260, 5e-6);
  EXPECT_NEAR(efficiency(1350, kChapter), 0.832345, 1e-6);       // Young's value as work
  EXPECT_NEAR(efficiency(1350 - 120, kChapter), 0.83252, 5e-6);  // as cycle
}

// The chapter's table with the exact law in both readings of tau.
TEST(IntervalPaperTest, TableOfWrongIntervals) {
  struct Row {
    double tau, linear, exact_cycle, exact_work;
  };
  for (const Row& row :
       {Row{300, 41.98, 58.8, 69.5}, Row{900, 19.26, 81.6, 82.4}, Row{1350, 17.78, 83.3, 83.2},
        Row{3600, 27.04, 75.6, 75.0}, Row{14400, 95.65, 33.2, 32.9}}) {
    EXPECT_NEAR(100 * linear_waste(row.tau, kChapter), row.linear, 0.006) << row.tau;
    EXPECT_NEAR(100 * efficiency(row.tau - 120, kChapter), row.exact_cycle, 0.051) << row.tau;
    EXPECT_NEAR(100 * efficiency(row.tau, kChapter), row.exact_work, 0.051) << row.tau;
  }
}

TEST(IntervalPaperTest, MeanLossIsBelowHalfACycle) {
  EXPECT_NEAR(mean_lost_seconds(3600, 7593.75), 1658, 0.5);
  EXPECT_NEAR(mean_lost_seconds(14400, 7593.75), 5050, 0.5);
  EXPECT_NEAR(-std::expm1(-3600 / 7593.75), 0.378, 5e-4);  // not tau / M = 47 %
}

TEST(IntervalPaperTest, RestartsCostButDoNotMoveTheOptimum) {
  IntervalCosts costs = kChapter;
  costs.restart_seconds = 300;
  EXPECT_EQ(best_interval_seconds(costs), best_interval_seconds(kChapter));
  EXPECT_NEAR(linear_waste(1350, costs) - linear_waste(1350, kChapter), 0.04, 0.001);
  EXPECT_NEAR(efficiency(1000, costs) / efficiency(1000, kChapter), std::exp(-300 / 7593.75),
              1e-12);
}

// linear waste(k tau*) = waste(tau* / k); exactly, with the save inside tau, shorter is worse.
TEST(IntervalPaperTest, ShorterIsNotSafer) {
  EXPECT_NEAR(linear_waste(1350 * 4.5, kChapter), linear_waste(1350 / 4.5, kChapter), 1e-12);
  EXPECT_NEAR(100 * efficiency(1350 * 4.5 - 120, kChapter), 64.0, 0.05);
  EXPECT_NEAR(100 * efficiency(1350 / 4.5 - 120, kChapter), 58.8, 0.05);
}

// Llama 3: 419 failures in 54 days on 16384 GPUs, at 2048 GPUs.
TEST(IntervalPaperTest, WithLlamasFailureRate) {
  const double mtbf = 54 * 86400.0 / 419 * 16384 / 2048;
  const IntervalCosts costs{.save_seconds = 120, .mtbf_seconds = mtbf};
  EXPECT_NEAR(mtbf / 3600, 24.7, 0.05);
  EXPECT_NEAR(young_interval_seconds(costs) / 60, 77, 0.5);
  EXPECT_NEAR(100 * linear_waste(young_interval_seconds(costs), costs), 5.2, 0.05);
}

TEST(IntervalPaperTest, ErrorsOfTheApproximations) {
  struct Row {
    double ratio, young_error_percent, points_lost;
  };
  for (const Row& row : {Row{0.01, 4.9, 0.013}, Row{0.1, 17, 0.29}, Row{0.5, 43, 1.4}}) {
    const IntervalCosts costs{.save_seconds = row.ratio, .mtbf_seconds = 1};
    const double best = best_interval_seconds(costs), young = young_interval_seconds(costs);
    EXPECT_NEAR(100 * (young / best - 1), row.young_error_percent, 0.5) << row.ratio;
    EXPECT_NEAR(100 * (efficiency(best, costs) - efficiency(young, costs)), row.points_lost,
                row.points_lost * 0.05)
        << row.ratio;
  }
  for (double ratio = 1e-4; ratio <= 0.1; ratio *= 1.1) {
    const IntervalCosts costs{.save_seconds = ratio, .mtbf_seconds = 1};
    EXPECT_NEAR(daly_higher_order_interval_seconds(costs) / best_interval_seconds(costs), 1, 4e-4)
        << ratio;
  }
  const IntervalCosts half{.save_seconds = 0.5, .mtbf_seconds = 1};
  EXPECT_NEAR(std::abs(daly_higher_order_interval_seconds(half) / best_interval_seconds(half) - 1),
              0.0055, 1e-4);
}

TEST(IntervalTest, LambertFactorSolvesItsEquation) {
  for (double x = 1e-14; x < 1000; x *= 1.2) {
    const double u = lambert_interval_factor(x);
    ASSERT_GT(u, 0) << x;
    ASSERT_LE(u, 1) << x;
    if (x < 1) {  // -ln(1 - u) - u = x
      const double exact_left =
          u < 1e-3 ? u * u / 2 + u * u * u / 3 + u * u * u * u / 4 : -std::log1p(-u) - u;
      ASSERT_NEAR(exact_left / x, 1, 1e-8) << x;
    } else {  // (1 - u) e^u = e^-x
      ASSERT_NEAR((1 - u) * std::exp(u), std::exp(-x), 1e-15) << x;
    }
  }
}

TEST(IntervalTest, NoOtherIntervalIsMoreEfficient) {
  CounterRandom random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const IntervalCosts costs{.save_seconds = std::pow(10, 4 * random.real() - 1),
                              .mtbf_seconds = std::pow(10, 4 * random.real() + 1),
                              .restart_seconds = 100 * random.real()};
    const double best = best_interval_seconds(costs);
    const double most = efficiency(best, costs);
    for (const double factor : {1e-3, 0.1, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 10.0}) {
      ASSERT_LE(efficiency(best * factor, costs), most * (1 + 1e-12))
          << trial << " factor " << factor;
    }
  }
}

// The law itself, by simulation: failures at random, also during saves and restarts.
TEST(IntervalTest, EfficiencyIsWhatASimulationMeasures) {
  for (const IntervalCosts& costs : {IntervalCosts{120, 7593.75, 0}, IntervalCosts{50, 600, 40}}) {
    for (const double work : {100.0, 400.0, 1500.0}) {
      CounterRandom random(7);
      const auto next_failure = [&] { return -costs.mtbf_seconds * std::log1p(-random.real()); };
      const int cycles = 40000;
      double wall = 0;
      for (int done = 0; done < cycles;) {
        const double until_failure = next_failure();  // memoryless: drawn anew at every beginning
        if (until_failure >= work + costs.save_seconds) {
          wall += work + costs.save_seconds;
          ++done;
          continue;
        }
        wall += until_failure;
        double failure = next_failure();
        for (; failure < costs.restart_seconds; failure = next_failure()) wall += failure;
        wall += costs.restart_seconds;
      }
      EXPECT_NEAR(cycles * work / wall / efficiency(work, costs), 1, 0.03) << work;
    }
  }
}

}  // namespace
}  // namespace evermoe
