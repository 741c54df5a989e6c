#include "train/step/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace evermoe {
namespace {

TrainConfig train_with(LearningRateShape shape) {
  TrainConfig train;
  train.schedule = shape;
  train.steps = 20;
  train.warmup_steps = 4;
  train.decay_steps = 5;
  train.learning_rate = 1;
  train.final_learning_rate = 0.25;
  return train;
}

double rate(const TrainConfig& train, int64_t step) { return learning_rate(train, Step(step)); }

TEST(LearningRateTest, RisesToThePeakAndFallsToTheFinalRateAtTheLastStep) {
  const TrainConfig cosine = train_with(LearningRateShape::kCosine);
  EXPECT_DOUBLE_EQ(rate(cosine, 0), 0.25);
  EXPECT_DOUBLE_EQ(rate(cosine, 3), 1);
  EXPECT_DOUBLE_EQ(rate(cosine, 4), 1);
  EXPECT_LT(rate(cosine, 12), rate(cosine, 11));
  EXPECT_DOUBLE_EQ(rate(cosine, 19), 0.25);
  const TrainConfig wsd = train_with(LearningRateShape::kWsd);
  EXPECT_DOUBLE_EQ(rate(wsd, 15), 1);
  EXPECT_DOUBLE_EQ(rate(wsd, 19), 0.25);
  EXPECT_DOUBLE_EQ(rate(train_with(LearningRateShape::kConstant), 19), 1);
}

void expect_schedule_of_its_own(int64_t warmup, int64_t decay) {
  SCOPED_TRACE(testing::Message() << "warm-up " << warmup << ", decay " << decay);
  for (const auto shape : {LearningRateShape::kCosine, LearningRateShape::kWsd}) {
    for (const int64_t steps : {10, 100}) {
      TrainConfig whole = train_with(shape);
      whole.warmup_steps = warmup;
      whole.decay_steps = decay;
      TrainConfig other = whole;
      other.steps = steps;
      other.schedule_steps = whole.steps;
      for (int64_t step = 0; step < steps; ++step)
        EXPECT_EQ(rate(other, step), rate(whole, std::min<int64_t>(step, 19))) << step;
    }
  }
}

TEST(LearningRateTest, AScheduleOfItsOwnDoesNotDependOnTheStepsOfTheRun) {
  for (const int64_t decay : {0, 1, 5}) expect_schedule_of_its_own(4, decay);
  expect_schedule_of_its_own(30, 5);
}

}  // namespace
}  // namespace evermoe
