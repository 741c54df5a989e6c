// Predictions whose seconds can be counted by hand.
#include "planner/measured/measured_run.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace evermoe {
namespace {

// 100 steps of a second on two stages of two lanes, each lane a place.
JobConfig four_ranks(StrategyKind kind) {
  JobConfig job;
  job.train.steps = 100;
  job.parallel.stages = 2;
  job.parallel.lanes = {2, 2};
  job.protection.strategy = kind;
  job.checkpoint.every_steps = 10;
  return job;
}

RuntimeProfile profile_of(const JobConfig& job) {
  RuntimeProfile profile{.fingerprint = job_fingerprint(job),
                         .stages = 2,
                         .ranks = 4,
                         .step_seconds = 1,
                         .begin_seconds = 3,
                         .end_seconds = 1};
  const LossProfile worker{.detect_seconds = 1,
                           .view_seconds = 2,
                           .load_seconds = 3,
                           .step_again_seconds = 0.5,
                           .settle_seconds = 1,
                           .failures = 1};
  LossProfile node = worker;
  node.view_seconds = 20;
  for (const StrategyKind kind : kStrategyKinds)
    profile.strategies.push_back({.kind = kind,
                                  .step_seconds = 1,
                                  .begin_seconds = 4,  // so that times of losses are the run's
                                  .end_seconds = 0,
                                  .window_steps = kind == StrategyKind::kSparse ? 4.0 : 0.0,
                                  .worker = worker,
                                  .node = node});
  return profile;
}

PredictedRun predicted(const JobConfig& job, const std::vector<PlayedLoss>& losses,
                       LostKind lost = LostKind::kWorker) {
  const auto run = predict_run(profile_of(job), job, lost, losses);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.value_or(PredictedRun());
}

TEST(MeasuredRunTest, UndisturbedRunHasAnEttrOfOne) {
  for (const StrategyKind kind : kStrategyKinds)
    EXPECT_NEAR(predicted(four_ranks(kind), {}).ettr, 1, 1e-9);
}

// At 57.5: back to the save of step 50. Seven seconds of recovery and 7.5 of training again.
TEST(MeasuredRunTest, DurableSavesTakeEverybodyBack) {
  const PredictedRun run = predicted(four_ranks(StrategyKind::kNone), {{57.5, {3}}});
  EXPECT_NEAR(run.seconds, 100 + 7 + 7.5, 1e-9);
  EXPECT_NEAR(run.ettr, 100 / 114.5, 1e-9);
}

// A snapshot of each step counts once the next one is over: the one of step 56, so a step and a
// half are run again, at half a second each.
TEST(MeasuredRunTest, CopiesAtPeersCostACatchUp) {
  for (const StrategyKind kind : {StrategyKind::kDense, StrategyKind::kPeerMemory})
    EXPECT_NEAR(predicted(four_ranks(kind), {{57.5, {3}}}).seconds, 100 + 7 + 1.5 * 0.5, 1e-9);
  JobConfig rarer = four_ranks(StrategyKind::kDense);
  rarer.protection.dense_every_steps = 20;
  EXPECT_NEAR(predicted(rarer, {{57.5, {3}}}).seconds, 100 + 7 + 17.5 * 0.5, 1e-9);
}

// Windows of four steps end at multiples of four and are complete a step later: 56. Three steps of
// conversion and a half.
TEST(MeasuredRunTest, WindowsAreCaughtUp) {
  EXPECT_NEAR(predicted(four_ranks(StrategyKind::kSparse), {{57.5, {3}}}).seconds,
              100 + 7 + (3 + 1.5) * 0.5, 1e-9);
}

TEST(MeasuredRunTest, GradientsLoseTheStepUnderWay) {
  EXPECT_NEAR(predicted(four_ranks(StrategyKind::kGradients), {{57.5, {3}}}).seconds, 100 + 7 + 0.5,
              1e-9);
}

TEST(MeasuredRunTest, AFailureDuringARecoveryBeginsItAnew) {
  EXPECT_NEAR(predicted(four_ranks(StrategyKind::kGradients), {{57.5, {3}}, {59.5, {3}}}).seconds,
              100 + 2 + 7 + 0.5, 1e-9);
}

// One copy, in another stage: a rank and its holder together send everybody to disk, a rank and any
// other one do not.
TEST(MeasuredRunTest, ARankAndItsHolderTogetherGoBackToDisk) {
  const JobConfig job = four_ranks(StrategyKind::kDense);
  const TrainedJob trained = measured_job(profile_of(job), job);
  ASSERT_EQ(trained.states.size(), 4u);
  ASSERT_EQ(trained.states[0].holders.size(), 1u);
  const int holder = trained.states[0].holders[0];
  EXPECT_GE(holder, 2) << "a holder of the same stage";
  int fallbacks = 0;
  for (int other = 1; other < 4; ++other) {
    const PredictedRun run = predicted(job, {{57.5, {0, other}}});
    fallbacks += static_cast<int>(run.run.fallbacks);
    if (other == holder) {
      EXPECT_EQ(run.run.fallbacks, 1);
    }
  }
  EXPECT_LE(fallbacks, 2);  // the holder of rank 0, and whose holder rank 0 is
}

// Ranks 0 and 1 begin on node 0, rank 2 on node 1 and rank 3 on node 2.
TEST(MeasuredRunTest, ANodeTakesTheRanksThatBeginOnIt) {
  JobConfig job = four_ranks(StrategyKind::kDense);
  job.run.nodes = 3;
  EXPECT_EQ(ranks_on(job, std::vector<int>{0, 2}), (std::vector<int>{0, 1, 3}));
  const TrainedJob trained = measured_job(profile_of(job), job);
  ASSERT_EQ(trained.states.size(), 4u);
  EXPECT_EQ(trained.nodes, 4) << "a place for each rank";
  for (const int rank : {0, 1}) EXPECT_GE(trained.states[static_cast<size_t>(rank)].holders[0], 2);
}

// A loss of a node costs what one of a node was measured to cost.
TEST(MeasuredRunTest, ANodeCostsANodesPrice) {
  JobConfig job = four_ranks(StrategyKind::kNone);
  job.run.nodes = 2;
  EXPECT_NEAR(predicted(job, {{57.5, {1}}}, LostKind::kNode).seconds, 100 + 1 + 20 + 4 + 7.5, 1e-9);
  job.protection.strategy = StrategyKind::kDense;
  const PredictedRun run = predicted(job, {{57.5, {1}}}, LostKind::kNode);
  EXPECT_EQ(run.run.fallbacks, 0);
  EXPECT_NEAR(run.seconds, 100 + 1 + 20 + 4 + 1.5 * 0.5, 1e-9);
}

TEST(MeasuredRunTest, TwoNodesThatHoldEachOthersCopiesGoBackToDisk) {
  JobConfig job = four_ranks(StrategyKind::kDense);
  job.run.nodes = 2;
  const PredictedRun run = predicted(job, {{57.5, {0, 1}}}, LostKind::kNode);
  EXPECT_EQ(run.run.fallbacks, 1);
  EXPECT_NEAR(run.seconds, 100 + 1 + 20 + 4 + 7.5, 1e-9);  // from the save of step 50
}

// The whole job starts again, as it does without copies.
TEST(MeasuredRunTest, AFallbackCostsAStartOfAll) {
  JobConfig job = four_ranks(StrategyKind::kDense);
  RuntimeProfile profile = profile_of(job);
  for (StrategyProfile& one : profile.strategies) {
    if (one.kind == StrategyKind::kNone) one.worker.view_seconds = 2.75;
  }
  const std::vector<PlayedLoss> losses{{57.5, {0, 1, 2, 3}}};
  const auto run = predict_run(profile, job, LostKind::kWorker, losses);
  EXPECT_EQ(run->run.fallbacks, 1);
  EXPECT_NEAR(run->seconds, 100 + 7 + 0.75 + 7.5, 1e-9);
}

// Six nodes for four ranks: 2 and 5 play nothing.
TEST(MeasuredRunTest, ANodeThatPlaysNothingIsNoLoss) {
  JobConfig job = four_ranks(StrategyKind::kNone);
  job.run.nodes = 6;
  EXPECT_EQ(predicted(job, {{30, {2, 5}}}, LostKind::kNode).run.recoveries, 0);
  EXPECT_EQ(predicted(job, {{30, {4, 5}}}, LostKind::kNode).run.recoveries, 1);
}

// A save lengthens training by three steps and is on disk after one: 3 / 0.05 steps between two,
// more than a measuring run has. 57.5 steps and no save; 63 steps of them one.
TEST(MeasuredRunTest, CheckfreqSavesAsOftenAsItsBudgetAllows) {
  JobConfig job = four_ranks(StrategyKind::kCheckfreq);
  job.protection.overhead_budget = 0.05;
  RuntimeProfile profile = profile_of(job);
  for (StrategyProfile& one : profile.strategies) {
    one.save_seconds = 3;
    one.save_lag_steps = 1;
  }
  EXPECT_EQ(measured_strategy(profile, job, LostKind::kWorker).save.every_steps, 60);
  job.protection.overhead_budget = 0.3;
  EXPECT_EQ(measured_strategy(profile, job, LostKind::kWorker).save.every_steps, 10);
}

TEST(MeasuredRunTest, LossesThatWereNotMeasuredAreNotPriced) {
  const JobConfig job = four_ranks(StrategyKind::kNone);
  RuntimeProfile profile = profile_of(job);
  for (StrategyProfile& one : profile.strategies) one.node = {};
  EXPECT_TRUE(predict_run(profile, job, LostKind::kNode, {}).ok());
  const auto run = predict_run(profile, job, LostKind::kNode, std::vector<PlayedLoss>{{5, {0}}});
  EXPECT_TRUE(absl::StrContains(run.status().message(), "found no loss of a node")) << run.status();
}

TEST(MeasuredRunTest, ExpertsInMemoryLoseLess) {
  JobConfig job = four_ranks(StrategyKind::kPartialExperts);
  job.protection.experts_saved = 1;
  const double with_all = predicted(job, {{57.5, {3}}}).lost_token_share;
  job.protection.experts_in_memory = 2;
  const double with_two = predicted(job, {{57.5, {3}}}).lost_token_share;
  EXPECT_GT(with_all, 0);
  EXPECT_GT(with_two, with_all);
}

TEST(MeasuredRunTest, AProfileOfAnotherJobIsRefused) {
  JobConfig job = four_ranks(StrategyKind::kSparse);
  RuntimeProfile profile = profile_of(job);
  job.train.micro_batches *= 2;
  const auto other = predict_run(profile, job, LostKind::kWorker, {});
  ASSERT_FALSE(other.ok());
  EXPECT_TRUE(absl::StrContains(other.status().message(), "another job"));
  job = four_ranks(StrategyKind::kSparse);
  std::erase_if(profile.strategies, [](const auto& s) { return s.kind == StrategyKind::kSparse; });
  EXPECT_FALSE(predict_run(profile, job, LostKind::kWorker, {}).ok());
}

}  // namespace
}  // namespace evermoe
