// The schedules of schedules_test.cc with the other strategies, a smaller share of them each.
#include <gtest/gtest.h>

#include "base/log.h"
#include "sim/schedule_run.h"

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
                                         StrategyKind::kPeerMemory, StrategyKind::kNone));

}  // namespace
}  // namespace evermoe
