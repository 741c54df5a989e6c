#include "protection/interval/save_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protection/interval/paced_interval.h"

namespace evermoe {
namespace {

constexpr absl::Duration kStep = absl::Seconds(1);

// One rank that votes alone.
class SavePaceTest : public ::testing::Test {
 protected:
  // Trains until so many steps are made, each with a time of its own if a save is under way.
  // A save pauses training by `paused` and is on disk `written` after it began.
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      const absl::Duration time = pace_.is_saving() ? saving_step_ : kStep;
      now_ += time;
      if (pace_.is_saving() && now_ >= on_disk_) pace_.on_save_ended(on_disk_, saves_succeed_);
      const int64_t vote = pace_.vote(Step(step_ + 1));
      pace_.on_verdict(Step(++step_), vote, pace_.last());
      pace_.on_step(time);
      if (!pace_.is_due(Step(step_))) continue;
      saved_.push_back(step_);
      pace_.on_save_begun(now_, paused_);
      on_disk_ = now_ + written_;
      now_ += paused_;
    }
  }
  int64_t newest_interval() const { return saved_.back() - saved_[saved_.size() - 2]; }

  SavePace pace_{0.05};
  absl::Duration paused_ = absl::ZeroDuration();
  absl::Duration written_ = kStep / 2;
  absl::Duration saving_step_ = kStep;
  bool saves_succeed_ = true;
  absl::Duration now_, on_disk_;
  int64_t step_ = 0;
  std::vector<int64_t> saved_;
};

TEST_F(SavePaceTest, TheFirstSaveMeasures) {
  train(7);
  EXPECT_TRUE(saved_.empty());
  train(1);
  EXPECT_EQ(saved_, std::vector<int64_t>{SavePace::kFirstInterval});
}

TEST_F(SavePaceTest, SavesThatCostNothingAreMadeAfterEveryStep) {
  train(30);
  EXPECT_EQ(newest_interval(), 1);
}

TEST_F(SavePaceTest, TheNextSaveBeginsWhenTheLastOneIsOnDisk) {
  written_ = 6.5 * kStep;
  train(60);
  EXPECT_EQ(newest_interval(), 7);
}

TEST_F(SavePaceTest, APauseIsSpreadOverSoManyStepsThatTheBudgetIsKept) {
  paused_ = kStep / 2;
  train(60);
  EXPECT_EQ(newest_interval(), 10);  // half a step of twenty
}

TEST_F(SavePaceTest, LongerStepsMeanwhileCountAsThePauseDoes) {
  written_ = 2.5 * kStep;
  saving_step_ = 1.25 * kStep;
  train(100);
  EXPECT_EQ(newest_interval(), 10);  // two steps of a quarter more
}

TEST_F(SavePaceTest, ItFollowsADiskThatGetsSlower) {
  train(20);
  written_ = 12 * kStep;
  train(100);
  EXPECT_EQ(newest_interval(), 12);
}

TEST_F(SavePaceTest, OneSlowSaveChangesNothing) {
  train(20);
  written_ = 12 * kStep;
  train(1);
  written_ = kStep / 2;
  train(20);
  EXPECT_EQ(newest_interval(), 1);
}

TEST_F(SavePaceTest, ASaveThatFailedSaysNothing) {
  paused_ = 30 * kStep;
  saves_succeed_ = false;
  train(17);
  EXPECT_EQ(newest_interval(), SavePace::kFirstInterval);
}

TEST_F(SavePaceTest, NobodySavesWhileSomebodyStillWrites) {
  SavePace writes(0.05), waits(0.05);
  writes.on_save_begun(now_, paused_);
  for (int64_t step = 1; step <= 50; ++step) {
    const int64_t agreed = std::max(writes.vote(Step(step)), waits.vote(Step(step)));
    const Step last = std::max(writes.last(), waits.last());
    writes.on_verdict(Step(step), agreed, last);
    waits.on_verdict(Step(step), agreed, last);
    EXPECT_FALSE(waits.is_due(Step(step)));
  }
  writes.on_save_ended(now_, false);
  const int64_t agreed = std::max(writes.vote(Step(51)), waits.vote(Step(51)));
  waits.on_verdict(Step(51), agreed, waits.last());
  EXPECT_TRUE(waits.is_due(Step(51)));
}

TEST_F(SavePaceTest, WhereTrainingBeginsNothingIsDue) {
  pace_.begin(Step(40));
  EXPECT_FALSE(pace_.is_due(Step(40)));
  step_ = 40;
  train(8);
  EXPECT_EQ(saved_, std::vector<int64_t>{48});
}

// What a rank wants is what a prediction is told.
TEST_F(SavePaceTest, IntervalIsThatOfItsCosts) {
  paused_ = kStep * 2;
  written_ = kStep * 7 / 2;
  train(400);
  EXPECT_EQ(newest_interval(), paced_interval({.longer = 2, .to_disk = 3.5}, 0.05));
  EXPECT_EQ(newest_interval(), 40);
}

TEST(PacedIntervalTest, IsAtLeastAStepAndTheWayToTheDisk) {
  EXPECT_EQ(paced_interval({}, 0.05), 1);
  EXPECT_EQ(paced_interval({.longer = 1, .to_disk = 6.5}, 0.5), 7);
  EXPECT_EQ(paced_interval({.longer = 9}, 0.035), 258);
  EXPECT_EQ(paced_interval({.longer = 1e300}, 0.05), SavePace::kIntervalMax);
}

// It has not gone on from any state: it rests.
TEST(SavePaceAgreement, AProcessThatComesLaterSavesWithTheOthers) {
  SavePace trains(0.05), comes(0.05);
  for (int64_t step = 1; step <= 30; ++step) {
    const bool is_there = step > 13;
    const Step last = is_there ? std::max(trains.last(), comes.last()) : trains.last();
    trains.on_verdict(Step(step), 5, last);
    EXPECT_EQ(trains.is_due(Step(step)), step % 5 == 0) << step;
    if (!is_there) continue;
    comes.on_verdict(Step(step), 5, last);
    EXPECT_EQ(comes.is_due(Step(step)), step % 5 == 0) << step;
  }
}

}  // namespace
}  // namespace evermoe
