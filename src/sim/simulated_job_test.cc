// The faults of workers and nodes that a job has to survive, one scenario each. Every survived one
// ends with the digest of the undisturbed job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SimulatedJobTest, UndisturbedRunsAgreeWhateverTheDelays) {
  const SimulatedOutcome first = run();
  ASSERT_TRUE(first.ok) << explain(first);
  shape_.network.seed = 99;
  const SimulatedOutcome second = run();
  EXPECT_EQ(first.digest, second.digest);
  EXPECT_TRUE(second.recoveries.empty());
  shape_.model.seed = 2;
  EXPECT_NE(run().digest, first.digest);
}

TEST_F(SimulatedJobTest, AnyRoleMayDie) {
  for (const std::vector<int>& lanes : {std::vector<int>{4, 4}, std::vector<int>{2, 2, 2, 2}}) {
    shape_.lanes = lanes;
    const SimulatedOutcome expected = run();
    for (int rank = 0; rank < 8; ++rank) {
      const SimulatedOutcome outcome = run({kill(rank, "step/backward", 9)});
      ASSERT_TRUE(outcome.ok) << explain(outcome);
      EXPECT_EQ(outcome.digest, expected.digest) << explain(outcome);
      EXPECT_THAT(rolled_back(outcome), ElementsAre(rank / lanes[0]));
      EXPECT_EQ(outcome.processes, 9) << "survivors keep their processes";
    }
  }
}

TEST_F(SimulatedJobTest, TwoLanesOfOneStage) {
  shape_.lanes = {3, 2};
  shape_.copies = 2;
  EXPECT_THAT(rolled_back(survives({kill(0, "step/forward", 13), kill(1, "step/forward", 13)})),
              ElementsAre(0));
}

TEST_F(SimulatedJobTest, TwoAdjacentStages) {
  shape_.lanes = {2, 2, 2};
  shape_.copies = 2;
  const SimulatedOutcome outcome =
      survives({kill(0, "step/forward", 13), kill(2, "step/forward", 13)});
  EXPECT_THAT(rolled_back(outcome), ElementsAre(0, 1));
  EXPECT_FALSE(outcome.recoveries[0].restarted_all);
}

TEST_F(SimulatedJobTest, TwoDisjointStages) {
  shape_.lanes = {2, 2, 2};
  shape_.copies = 2;
  EXPECT_THAT(rolled_back(survives({kill(0, "step/forward", 13), kill(5, "step/forward", 13)})),
              ElementsAre(0, 2));
}

TEST_F(SimulatedJobTest, ASecondDeathDuringTheCatchUp) {
  shape_.copies = 2;
  const SimulatedOutcome outcome =
      survives({kill(0, "step/forward", 15), kill(1, "catch_up/step", 2)});
  EXPECT_THAT(outcome.marks, Contains("failure during a recovery"));
  EXPECT_FALSE(outcome.recoveries[0].restarted_all);
}

TEST_F(SimulatedJobTest, ANeighbourDiesDuringTheCatchUp) {
  shape_.copies = 2;
  EXPECT_THAT(rolled_back(survives({kill(0, "step/forward", 15),
                                    {.kind = SimulatedFault::Kind::kKillWorker,
                                     .rank = Rank(2),
                                     .point = "catch_up/step",
                                     .at_rank = Rank(0),
                                     .passing = 2}})),
              ElementsAre(0, 1));
}

TEST_F(SimulatedJobTest, TheControllerDies) {
  survives({{.kind = SimulatedFault::Kind::kKillController, .time = absl::Milliseconds(60)}});
}

TEST_F(SimulatedJobTest, TheControllerDiesWhileAViewOpens) {
  const SimulatedOutcome outcome = survives({kill(0, "step/forward", 15),
                                             {.kind = SimulatedFault::Kind::kKillController,
                                              .point = "recovery/stopped",
                                              .at_rank = Rank(2),
                                              .passing = 2}});
  EXPECT_THAT(outcome.marks, Contains("controller killed while a view opened"));
}

TEST_F(SimulatedJobTest, AWorkerDiesWhileThereIsNoController) {
  survives({{.kind = SimulatedFault::Kind::kKillController, .time = absl::Milliseconds(60)},
            {.kind = SimulatedFault::Kind::kKillWorker,
             .rank = Rank(1),
             .time = absl::Milliseconds(70)}});
}

TEST_F(SimulatedJobTest, ANodeWithTwoWorkers) {
  shape_.nodes = 2;
  shape_.spares = 1;
  const SimulatedOutcome outcome = survives(
      {{.kind = SimulatedFault::Kind::kKillNode, .node = Node(0), .time = absl::Milliseconds(90)}});
  EXPECT_FALSE(outcome.recoveries[0].restarted_all)
      << "copies are on other nodes" << explain(outcome);
}

TEST_F(SimulatedJobTest, AStoppedWorkerIsFoundAndReplaced) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopWorker,
                                              .rank = Rank(3),
                                              .time = absl::Milliseconds(70)}});
  EXPECT_THAT(outcome.recoveries[0].causes.front(), HasSubstr("no sign of life"));
}

TEST_F(SimulatedJobTest, ACutConnection) {
  survives({{.kind = SimulatedFault::Kind::kCut,
             .rank = Rank(0),
             .other = Rank(3),
             .time = absl::Milliseconds(70)}});
}

// It lives and says so, but its training thread never comes back.
TEST_F(SimulatedJobTest, AWorkerThatHangsIsFoundByThePaceOfTheJob) {
  for (const int victim : {0, 3}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kHang,
                                                .rank = Rank(victim),
                                                .point = "step/forward",
                                                .at_rank = Rank(victim),
                                                .passing = 15}});
    EXPECT_THAT(rolled_back(outcome), ElementsAre(victim / 2));
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
    EXPECT_THAT(outcome.recoveries[0].causes, ElementsAre(HasSubstr("its stage does not move")));
    EXPECT_EQ(outcome.processes, 5) << "those that waited for it keep their processes";
  }
}

// Everybody has added up what all have found when one dies and the others are told to stop: none of
// them may commit what it has reported as not committed.
TEST_F(SimulatedJobTest, NobodyCommitsAfterAStop) {
  for (const int victim : {1, 3}) {
    std::vector<SimulatedFault> faults = {kill(victim, "commit/reduced", 9)};
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      faults.push_back({.kind = SimulatedFault::Kind::kPause,
                        .rank = Rank(rank),
                        .point = "commit/reduced",
                        .at_rank = Rank(rank),
                        .passing = 9});
    }
    const SimulatedOutcome outcome = survives(faults);
    EXPECT_THAT(rolled_back(outcome), ElementsAre(victim / 2));
    // One who did would leave the others waiting for it in the next commit, until another view
    // helps.
    EXPECT_THAT(outcome.recoveries[0].views, testing::SizeIs(1)) << explain(outcome);
  }
}

TEST_F(SimulatedJobTest, ADamagedCopyIsSkipped) {
  shape_.copies = 2;
  shape_.lanes = {2, 2, 2};
  // One of the two holders has a damaged copy: the other one's is taken.
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCorruptCopies,
                                              .rank = Rank(0),
                                              .only_at = Rank(2),
                                              .point = "step/forward",
                                              .at_rank = Rank(0),
                                              .passing = 15},
                                             kill(0, "step/forward", 15)});
  EXPECT_THAT(outcome.marks, Contains("unusable copy skipped")) << explain(outcome);
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
}

TEST_F(SimulatedJobTest, WithoutAnyCopyAllGoBackToTheDurableState) {
  const SimulatedOutcome outcome =
      survives({kill(0, "step/forward", 21), kill(2, "step/forward", 21)});
  EXPECT_TRUE(outcome.recoveries[0].restarted_all);
}

TEST_F(SimulatedJobTest, OrTheJobIsRefusedWithTheRolesAndWhereTheirCopiesWere) {
  shape_.restart_all_allowed = false;
  const SimulatedOutcome outcome = run({kill(0, "step/forward", 21), kill(2, "step/forward", 21)});
  EXPECT_TRUE(outcome.ended);
  EXPECT_FALSE(outcome.ok);
  EXPECT_THAT(outcome.reason, HasSubstr("nobody alive holds window"));
  EXPECT_THAT(outcome.reason, HasSubstr("its copies were at 1.0"));
}

TEST_F(SimulatedJobTest, WithoutProtectionEveryLossSendsAllBack) {
  shape_.strategy = StrategyKind::kNone;
  EXPECT_TRUE(survives({kill(0, "step/forward", 21)}).recoveries[0].restarted_all);
}

// Whoever goes on from the last step has nothing to save any more, and nothing to wait for.
TEST_F(SimulatedJobTest, AJobWhoseProcessesAreAllLostAtItsEndEnds) {
  for (const StrategyKind strategy : {StrategyKind::kSparse, StrategyKind::kNone}) {
    shape_.strategy = strategy;
    for (const int64_t closing : {1, 2}) {
      std::vector<SimulatedFault> faults;
      for (const int rank : {0, 1, 2, 3}) faults.push_back(kill(rank, "close/saved", closing));
      const SimulatedOutcome outcome = survives(faults);
      const bool is_all_lost =
          std::ranges::any_of(outcome.recoveries, &RecoveryRecord::restarted_all);
      EXPECT_TRUE(is_all_lost) << explain(outcome);
    }
  }
}

// However long it is: its messages are kept batch by batch, and a batch has no more than a step.
TEST_F(SimulatedJobTest, AnEvaluationTakesNoMoreOfTheLogThanAStep) {
  shape_.model.evaluate_every = 0;
  const int64_t without = run().log_bytes_peak;
  shape_.model.evaluate_every = 3;
  shape_.model.evaluation_batches = 100;
  const SimulatedOutcome outcome = run();
  ASSERT_TRUE(outcome.ok) << explain(outcome);
  EXPECT_LE(outcome.log_bytes_peak, without);
  EXPECT_EQ(outcome.work[0].evaluations, 100 * (shape_.model.steps / 3));
}

// Batches that have a commit are never run again, and the batch under way is finished by the
// survivors.
TEST_F(SimulatedJobTest, ARankDiesBetweenTheBatchesOfAnEvaluation) {
  shape_.lanes = {2, 2, 2};
  shape_.model.evaluation_batches = 7;
  for (const int victim : {0, 3, 4}) {
    for (const int64_t batch : {1, 5, 9}) {
      const SimulatedOutcome outcome = survives({kill(victim, "evaluate/batch", batch)});
      EXPECT_THAT(rolled_back(outcome), ElementsAre(victim / 2));
      EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
      const int64_t all = 7 * (shape_.model.steps / shape_.model.evaluate_every);
      for (int rank = 0; rank < 6; ++rank) {
        if (rank / 2 == victim / 2) continue;
        EXPECT_EQ(outcome.work[static_cast<size_t>(rank)].evaluations, all)
            << "rank " << rank << explain(outcome);
      }
    }
  }
}

TEST_F(SimulatedJobTest, CopiesForAllSendEverybodyBackInMemoryAndNeedNoLogsOfWindows) {
  shape_.window = 1;
  shape_.period = 4;
  shape_.strategy = StrategyKind::kDense;
  const int64_t log_of_dense = run().log_bytes_peak;
  shape_.strategy = StrategyKind::kPeerMemory;
  const SimulatedOutcome outcome = survives({kill(0, "step/forward", 21)});
  EXPECT_THAT(rolled_back(outcome), ElementsAre(0, 1));
  EXPECT_FALSE(outcome.recoveries[0].restarted_all);
  EXPECT_LT(outcome.log_bytes_peak, log_of_dense / 2);
}

TEST_F(SimulatedJobTest, DenseSnapshotsNowAndThen) {
  shape_.window = 1;
  shape_.period = 4;
  EXPECT_FALSE(survives({kill(0, "step/forward", 21)}).recoveries[0].restarted_all);
}

TEST_F(SimulatedJobTest, ASeedRepeatsExactly) {
  const auto story = [&] {
    return absl::StrJoin(run({kill(0, "step/forward", 15), kill(3, "copy/stored", 30)}).story,
                         "\n");
  };
  EXPECT_EQ(story(), story());
}

}  // namespace
}  // namespace evermoe
