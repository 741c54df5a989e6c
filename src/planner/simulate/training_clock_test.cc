#include <gtest/gtest.h>

#include "planner/simulate/training_clock.h"

namespace evermoe {
namespace {

TEST(TrainingClockTest, PositionsAreTheInverseOfTheClock) {
  for (const double stall : {0.0, 0.3, 7.0, 200.0}) {
    const TrainingClock clock(1.3, {4, stall, 0}, {10, 2.5, 0});
    for (int64_t steps = 0; steps < 200; ++steps) {
      const auto at = clock.position(clock.at(steps));
      EXPECT_EQ(at.steps, steps);
      EXPECT_EQ(at.fraction, 0);
      EXPECT_NEAR(clock.position(clock.at(steps) + 0.65).progress(),
                  static_cast<double>(steps) + 0.5, 1e-9);
    }
  }
  const TrainingClock long_run(0.1, {1000, 30, 0}, {});
  EXPECT_EQ(long_run.position(long_run.at(9'000'000'000)).steps, 9'000'000'000);
}

TEST(TrainingClockTest, SavesAreUsableAfterTheirDelay) {
  const PeriodicSave save{.every_steps = 10, .stall_seconds = 2, .durable_after_seconds = 15};
  const TrainingClock clock(1, save, {});
  EXPECT_EQ(clock.newest_usable(save, 26.9), 0);  // step 10 is saved at 12
  EXPECT_EQ(clock.newest_usable(save, 27), 10);
  EXPECT_EQ(clock.newest_usable(save, 39), 20);
}

}  // namespace
}  // namespace evermoe
