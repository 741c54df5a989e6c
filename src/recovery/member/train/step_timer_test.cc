#include "recovery/member/train/step_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HandMovedClock final : public Clock {
 public:
  absl::Duration now() override { return now_; }
  void sleep_until(absl::Duration deadline) override { now_ = deadline; }
  absl::Duration thread_time() override { return {}; }
  absl::Time wall_now() override { return absl::UnixEpoch() + now_; }
  void compute(int seconds) { now_ += absl::Seconds(seconds); }

 private:
  absl::Duration now_ = absl::Seconds(100);
};

class StepTimerTest : public testing::Test {
 protected:
  void wait(int seconds) {
    clock_.compute(seconds);
    waited_ += absl::Seconds(seconds);
  }
  HandMovedClock clock_;
  absl::Duration waited_ = absl::Seconds(7);
  StepTimer timer_{clock_, [this] { return waited_; }};
};

TEST_F(StepTimerTest, WaitingIsNoComputing) {
  timer_.begin(View(1));
  clock_.compute(3);
  wait(5);
  clock_.compute(1);
  timer_.end(Step(4), View(1), 2.5);
  EXPECT_THAT(timer_.take(), ElementsAre(StepTime{Step(4), absl::Seconds(4), 2.5}));
  EXPECT_THAT(timer_.take(), IsEmpty()) << "each is told once";
}

TEST_F(StepTimerTest, WhatIsSetAsideIsNoComputing) {
  timer_.begin(View(1));
  clock_.compute(3);
  timer_.set_aside([this] { clock_.compute(2); });
  timer_.end(Step(4), View(1), 1);
  EXPECT_THAT(timer_.take(), ElementsAre(StepTime{Step(4), absl::Seconds(3), 1}));
}

TEST_F(StepTimerTest, AStepWithAnythingElseIsLeftOut) {
  timer_.begin(View(1));
  timer_.leave_out();  // an evaluation
  timer_.end(Step(4), View(1), 1);
  EXPECT_THAT(timer_.take(), IsEmpty());
}

TEST_F(StepTimerTest, AStepThroughAChangeOfViewsIsLeftOut) {
  timer_.begin(View(1));
  timer_.end(Step(4), View(2), 1);
  EXPECT_THAT(timer_.take(), IsEmpty());
}

TEST_F(StepTimerTest, WhatNobodyTakesIsBounded) {
  for (int step = 1; step <= 100; ++step) {
    timer_.begin(View(1));
    timer_.end(Step(step), View(1), 1);
  }
  const std::vector<StepTime> times = timer_.take();
  ASSERT_EQ(times.size(), kStepTimesMax);
  EXPECT_EQ(times.back().step, Step(100)) << "the newest are kept";
}

}  // namespace
}  // namespace evermoe
