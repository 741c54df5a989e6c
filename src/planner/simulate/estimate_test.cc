#include "planner/simulate/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

TEST(EstimateTest, MeanErrorAndInterval) {
  const std::vector<double> values{1, 2, 3, 4};
  const Estimate estimate = estimate_mean(values);
  EXPECT_EQ(estimate.count, 4);
  EXPECT_DOUBLE_EQ(estimate.mean, 2.5);
  EXPECT_NEAR(estimate.deviation, std::sqrt(5.0 / 3), 1e-12);
  EXPECT_NEAR(estimate.error, std::sqrt(5.0 / 12), 1e-12);
  EXPECT_NEAR(estimate.high - estimate.mean, 3.1824 * estimate.error, 1e-4);
  const Estimate single = estimate_mean(std::vector<double>{7});
  EXPECT_EQ(single.low, 7);
  EXPECT_EQ(single.error, 0);
}

TEST(EstimateTest, QuantilesOfStudentsT) {
  struct Row {
    int degrees;
    double quantile;
  };
  for (const Row& row :
       {Row{1, 12.706}, Row{4, 2.776}, Row{10, 2.228}, Row{11, 2.201}, Row{15, 2.131},
        Row{30, 2.042}, Row{60, 2.000}, Row{120, 1.980}, Row{100000, 1.960}}) {
    EXPECT_NEAR(student_t_95(row.degrees), row.quantile, 0.0006) << row.degrees;
  }
}

TEST(EstimateTest, ARatioWeighsLongRunsMore) {
  const std::vector<double> useful{9, 0}, wall{10, 90};
  EXPECT_DOUBLE_EQ(estimate_ratio(useful, wall).mean, 0.09);
  const std::vector<double> equal{5, 7}, ones{10, 10};
  EXPECT_NEAR(estimate_ratio(equal, ones).mean, 0.6, 1e-12);
  EXPECT_NEAR(estimate_ratio(equal, ones).error, estimate_mean(std::vector<double>{0.5, 0.7}).error,
              1e-12);
}

// 95 % of the intervals hold the truth: of 2000, give or take 4 deviations.
TEST(EstimateTest, IntervalsHoldTheMeanAsOftenAsTheySay) {
  for (const int count : {2, 5, 20}) {
    int held = 0;
    for (uint64_t trial = 0; trial < 2000; ++trial) {
      RandomStream random(trial, static_cast<uint64_t>(count));
      std::vector<double> values;
      for (int i = 0; i < count; ++i) values.push_back(3 + random.normal());
      const Estimate estimate = estimate_mean(values);
      held += estimate.low <= 3 && 3 <= estimate.high;
    }
    EXPECT_NEAR(held, 1900, 4 * std::sqrt(2000 * 0.95 * 0.05)) << count;
  }
}

TEST(EstimateTest, SharesOfARunAddUp) {
  const FailureLaw law{.node_mtbf_seconds = 8 * 900, .repair_seconds = 300};
  RunStrategy strategy{.protection = StateProtection::kPeerMemory,
                       .replacement = NodeReplacement::kElastic};
  strategy.save = {10, 1, 0};
  strategy.recovery = {.detect = 5, .reconfigure = 20, .grow = 10, .grow_wait = 60};
  const RunEstimates run = estimate_runs(
      {.nodes = 8, .nodes_least = 6}, strategy, {.wall_seconds = 1e5},
      [&](uint64_t seed) { return draw_availability(law, 9, 0, seed); }, 5, 1);
  EXPECT_NEAR(run.ettr.mean + run.downtime_share.mean + run.rework_share.mean +
                  run.protection_share.mean + run.shrunk_share.mean,
              1, 1e-9);
  EXPECT_GT(run.shrunk_share.mean, 0);
  EXPECT_GT(run.rework_share.mean, 0);
}

TEST(EstimateTest, SameSeedsSameNumbers) {
  const FailureLaw law{.node_mtbf_seconds = 900};
  RunStrategy strategy;
  strategy.save = {10, 1, 0};
  const auto source = [&](uint64_t seed) { return draw_availability(law, 1, 0, seed); };
  const RunEstimates one = estimate_runs({}, strategy, {.wall_seconds = 1e5}, source, 3, 40);
  const RunEstimates same = estimate_runs({}, strategy, {.wall_seconds = 1e5}, source, 3, 40);
  EXPECT_EQ(one.ettr.mean, same.ettr.mean);
  EXPECT_EQ(one.ettr.error, same.ettr.error);
  EXPECT_NE(one.ettr.mean,
            estimate_runs({}, strategy, {.wall_seconds = 1e5}, source, 3, 50).ettr.mean);
}

}  // namespace
}  // namespace evermoe
