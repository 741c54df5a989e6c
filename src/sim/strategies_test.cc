// The schedules of schedules_test.cc with the other strategies, a smaller share of them each.
#include <gtest/gtest.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "sim/schedule_run.h"
#include "sim/simulated_job.h"

namespace evermoe {
namespace {

class StrategiesTest : public testing::TestWithParam<StrategyKind> {};

TEST_P(StrategiesTest, EveryFaultEndsExactly) {
  constexpr uint64_t kSeeds = 150;
  configure_log("sim", LogLevel::kError);
  int failures = 0, back = 0;
  for (uint64_t seed = 1; seed <= kSeeds && failures < 3; ++seed) {
    const ScheduleResult result = run_schedule(seed, {.strategy = GetParam()});
    back += static_cast<int>(result.outcome.recoveries.size());
    if (result.passed) continue;
    ADD_FAILURE() << result.transcript();
    ++failures;
  }
  EXPECT_GT(back, static_cast<int>(kSeeds) / 4);
}
INSTANTIATE_TEST_SUITE_P(Other, StrategiesTest,
                         testing::Values(StrategyKind::kDense, StrategyKind::kGradients,
                                         StrategyKind::kPeerMemory, StrategyKind::kCheckfreq,
                                         StrategyKind::kPartialExperts, StrategyKind::kNone));

TEST_P(StrategiesTest, MemoryDoesNotGrowWithTheSteps) {
  configure_log("sim", LogLevel::kError);
  SimulatedShape shape;
  shape.strategy = GetParam();
  if (strategy_of(shape.strategy).keeps_copies()) shape.period = 4;
  shape.model.steps = 200;
  const SimulatedOutcome outcome = SimulatedJob(shape, {}).run();
  EXPECT_TRUE(outcome.ok) << absl::StrJoin(outcome.story, "\n");
  EXPECT_LT(outcome.records_left, 40);
}

// 22 updates of 40 ms each: together they take longer than the controller waits for a movement.
TEST(GradientsTest, ManyUpdatesAreNoStandstill) {
  configure_log("sim", LogLevel::kError);
  SimulatedShape shape;
  shape.strategy = StrategyKind::kGradients;
  shape.window = 1;
  shape.period = 24;
  shape.model.steps = 50;
  shape.snapshot_bytes_max = 1 << 20;
  std::vector<SimulatedFault> faults{{.kind = SimulatedFault::Kind::kKillWorker,
                                      .rank = Rank(0),
                                      .point = "step/forward",
                                      .at_rank = Rank(0),
                                      .passing = int64_t{2} * 47}};
  for (int64_t passing = 1; passing <= 22; ++passing) {
    faults.push_back({.kind = SimulatedFault::Kind::kPause,
                      .point = "catch_up/update",
                      .at_rank = Rank(0),
                      .passing = passing});
  }
  const SimulatedOutcome outcome = SimulatedJob(shape, faults).run();
  const std::string story = absl::StrJoin(outcome.story, "\n");
  EXPECT_TRUE(outcome.ok) << story;
  EXPECT_TRUE(absl::StrContains(story, "passes catch_up/update for time 22")) << story;
  EXPECT_FALSE(absl::StrContains(story, "hung")) << story;
}

// On slow lines, in virtual time. Steps compute next to nothing here, so there are few gaps to use:
// what is seen is that putting chunks off for messages makes no job longer.
TEST(PeerMemoryTest, CopiesInTheGapsOfMessagesCostNoMoreThanBesideThem) {
  configure_log("sim", LogLevel::kError);
  for (const double bytes_per_second : {2e5, 5e4, 1e4}) {
    const auto duration_with = [&](StrategyKind strategy) {
      SimulatedShape shape;
      shape.strategy = strategy;
      shape.window = 1;
      shape.period = 6;
      shape.model.steps = 36;
      shape.network.bytes_per_second = bytes_per_second;
      shape.probes.pause = absl::InfiniteDuration();  // on a line of 10 kB/s they are not few
      const SimulatedOutcome outcome = SimulatedJob(shape, {}).run();
      EXPECT_TRUE(outcome.ok) << absl::StrJoin(outcome.story, "\n");
      return outcome.duration;
    };
    EXPECT_LE(duration_with(StrategyKind::kPeerMemory), duration_with(StrategyKind::kDense))
        << bytes_per_second;
  }
}

}  // namespace
}  // namespace evermoe
