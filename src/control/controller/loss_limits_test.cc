#include "control/controller/loss_limits.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

Commit step(int64_t number) { return verdict_commit(Step(number)); }
Progress heard(int64_t number, uint32_t view) { return {View(view), Rank(0), step(number)}; }

TEST(JobProgress, WhatIsKnownIsOld) {
  JobProgress progress;
  EXPECT_FALSE(progress.is_old(heard(1, 1)));
  EXPECT_TRUE(progress.on_commit(step(1)));
  EXPECT_TRUE(progress.is_old(heard(1, 1)));
  progress.on_joined(step(7));
  EXPECT_TRUE(progress.is_old(heard(6, 1))) << "others know of more";
}

TEST(JobProgress, AfterARestartCommitsOfEarlierViewsAreOld) {
  JobProgress progress;
  progress.on_commit(step(9));
  progress.on_restart(View(4));
  EXPECT_EQ(progress.newest(), Commit(-1));
  EXPECT_EQ(progress.furthest(), step(9));
  EXPECT_TRUE(progress.is_old(heard(10, 3)));
  EXPECT_FALSE(progress.is_old(heard(6, 4)));
}

// Each restart begins with the first commit after its checkpoint.
TEST(JobProgress, ANewerCheckpointThanAtTheRestartBeforeIsProgress) {
  JobProgress progress;
  progress.on_commit(step(30));
  progress.on_restart(View(2));
  EXPECT_FALSE(progress.on_commit(step(11))) << "nothing to compare with";
  EXPECT_FALSE(progress.on_commit(step(12))) << "it has been there";
  progress.on_restart(View(3));
  EXPECT_FALSE(progress.on_commit(step(11))) << "the same checkpoint";
  progress.on_restart(View(4));
  EXPECT_TRUE(progress.on_commit(step(21)));
  progress.on_restart(View(5));
  EXPECT_TRUE(progress.on_commit(step(31))) << "further than ever";
}

TEST(LossLimits, LossesInARowAreLimited) {
  ControllerOptions options;
  options.losses_max = 2;
  LossLimits limits(options);
  EXPECT_FALSE(limits.count_loss());
  EXPECT_FALSE(limits.count_loss());
  limits.on_progress();
  EXPECT_FALSE(limits.count_loss());
  EXPECT_FALSE(limits.count_loss());
  EXPECT_TRUE(limits.count_loss());
}

TEST(LossLimits, TheBackOffDoublesUpToItsLimit) {
  ControllerOptions options;
  options.restarts_max = 4;
  options.backoff = absl::Seconds(1);
  options.backoff_max = absl::Seconds(3);
  LossLimits limits(options);
  for (const double seconds : {1.0, 2.0, 3.0, 3.0}) {
    EXPECT_EQ(limits.count_failure(absl::Seconds(10)).delay, absl::Seconds(seconds));
    EXPECT_EQ(limits.start_at(), absl::Seconds(10 + seconds));
  }
  EXPECT_FALSE(limits.count_failure(absl::Seconds(10)).is_allowed);
}

TEST(LossLimits, APlanWithoutALossSinceTheOneBeforeIsUnexplained) {
  const ControllerOptions options;
  LossLimits limits(options);
  EXPECT_FALSE(limits.is_unexplained()) << "the first one begins the job";
  limits.on_plan();
  EXPECT_TRUE(limits.is_unexplained());
  limits.count_failure(absl::ZeroDuration());
  EXPECT_FALSE(limits.is_unexplained());
}

}  // namespace
}  // namespace evermoe
