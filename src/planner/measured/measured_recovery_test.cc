// What forecasts take from a measured job.
#include "planner/measured/measured_recovery.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/plan/plan_testing.h"

namespace evermoe {
namespace {

StrategyProfile measured(double restart) {
  return {
      .kind = StrategyKind::kSparse,
      .worker = {.detect_seconds = 0.25,
                 .view_seconds = restart,
                 .load_seconds = 100,
                 .settle_seconds = 0.5,
                 .failures = 3},
      .standby = {.view_seconds = 0.125, .load_seconds = 100, .settle_seconds = -7, .failures = 2},
      .move = {.hand_over_seconds = 100,
               .switch_seconds = 0.0625,
               .load_seconds = 100,
               .settle_seconds = 0.0625,
               .moves = 1}};
}

// Neither a state's way, which grows with it, nor strategies of which something is missing.
TEST(MeasuredRecoveryTest, IsTheMeanOfWhatDoesNotGrowWithTheState) {
  StrategyProfile none = measured(1000), still = measured(1000);
  none.standby = {};
  still.move = {};
  const std::vector<StrategyProfile> strategies{measured(1), none, measured(3), still};
  const auto recovery = measured_recovery(strategies);
  ASSERT_TRUE(recovery.has_value());
  EXPECT_EQ(recovery->detect_seconds, 0.25);
  EXPECT_EQ(recovery->restart_seconds, 2 + 0.5);
  EXPECT_EQ(recovery->standby_seconds, 0.125);
  EXPECT_EQ(recovery->migrate_seconds, 0.125);
  EXPECT_FALSE(measured_recovery(std::vector{none, still}).has_value());
  EXPECT_FALSE(measured_recovery({}).has_value());
}

TEST(MeasuredRecoveryTest, TakesThePlaceOfTheClusters) {
  RuntimeProfile profile{.recovery = MeasuredRecovery{.detect_seconds = 0.1,
                                                      .restart_seconds = 2,
                                                      .standby_seconds = 0.3,
                                                      .migrate_seconds = 0.4}};
  const auto cluster = with_recovery(default_cluster(), profile, "job.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->recovery.detect, 0.1);
  EXPECT_EQ(cluster->recovery.restart, 2);
  EXPECT_EQ(cluster->recovery.standby, 0.3);
  EXPECT_EQ(cluster->recovery.migrate, 0.4);
  EXPECT_EQ(cluster->recovery.reconfigure, default_cluster().recovery.reconfigure);
  profile.recovery.reset();
  EXPECT_EQ(message_of(with_recovery(default_cluster(), profile, "job.toml").status()),
            "job.toml: recovery: found nothing, allowed: a table, which `evermoe profile --job` "
            "writes for a job on several nodes with a strategy that keeps copies in peers' memory");
}

}  // namespace
}  // namespace evermoe
