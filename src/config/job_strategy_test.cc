#include "config/job_strategy.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

JobConfig config_with(StrategyKind kind) {
  JobConfig config;
  config.parallel.lanes = {2};
  config.protection.strategy = kind;
  return config;
}

TEST(JobStrategyTest, SparseWindowsAreMeasuredUnlessTheyAreGiven) {
  JobConfig config = config_with(StrategyKind::kSparse);
  EXPECT_TRUE(strategy_of(config).captures.is_measured);
  EXPECT_EQ(strategy_of(config).captures.period, 0) << "back to back";
  config.protection.window = 12;
  config.protection.window_every_steps = 20;
  const CaptureRule given = strategy_of(config).captures;
  EXPECT_FALSE(given.is_measured);
  EXPECT_EQ(given.slots, 12);
  EXPECT_EQ(given.slots_max, 12);
  EXPECT_EQ(given.period, 20);
}

TEST(JobStrategyTest, DenseOnesAreTakenAtOnceNowAndThen) {
  for (const StrategyKind kind : {StrategyKind::kDense, StrategyKind::kPeerMemory}) {
    JobConfig config = config_with(kind);
    config.protection.dense_every_steps = 7;
    const Strategy strategy = strategy_of(config);
    EXPECT_TRUE(strategy.keeps_copies());
    EXPECT_EQ(strategy.captures.slots, 1);
    EXPECT_EQ(strategy.captures.slots_max, 1);
    EXPECT_EQ(strategy.captures.period, 7);
  }
}

TEST(JobStrategyTest, GradientsLieBetweenSnapshotsThatAreTakenNowAndThen) {
  JobConfig config = config_with(StrategyKind::kGradients);
  config.protection.dense_every_steps = 7;
  config.protection.base_every_steps = 5;
  const Strategy strategy = strategy_of(config);
  EXPECT_TRUE(strategy.keeps_copies());
  EXPECT_TRUE(strategy.keeps_gradients());
  EXPECT_EQ(strategy.captures.slots_max, 1);
  EXPECT_EQ(strategy.captures.period, 5);
  EXPECT_FALSE(strategy.sends_everybody_back());
  EXPECT_EQ(strategy.log(), LogReach::kStep);
}

TEST(JobStrategyTest, CheckfreqChoosesWhenToSave) {
  EXPECT_FALSE(strategy_of(config_with(StrategyKind::kNone)).tunes_saves);
  JobConfig config = config_with(StrategyKind::kCheckfreq);
  EXPECT_TRUE(strategy_of(config).tunes_saves);
  EXPECT_FALSE(strategy_of(config).keeps_copies());
  EXPECT_EQ(strategy_of(config).restore, Restore::kEverybodyFromStorage);
  config.parallel = {};
  EXPECT_TRUE(strategy_of(config).tunes_saves) << "of one worker, too";
}

TEST(JobStrategyTest, WhomALossSendsBack) {
  EXPECT_EQ(strategy_of(config_with(StrategyKind::kSparse)).restore, Restore::kStage);
  EXPECT_EQ(strategy_of(config_with(StrategyKind::kDense)).restore, Restore::kStage);
  EXPECT_EQ(strategy_of(config_with(StrategyKind::kPeerMemory)).restore, Restore::kEverybody);
  EXPECT_EQ(strategy_of(config_with(StrategyKind::kNone)).restore, Restore::kEverybodyFromStorage);
}

TEST(JobStrategyTest, NobodyKeepsCopiesOfAJobOfOneWorker) {
  JobConfig config = config_with(StrategyKind::kSparse);
  config.parallel.lanes = {1};
  EXPECT_FALSE(strategy_of(config).keeps_copies());
  EXPECT_EQ(strategy_of(config).kind, StrategyKind::kSparse) << "what it asks for";
}

}  // namespace
}  // namespace evermoe
