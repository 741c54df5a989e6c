// The faults that a job has to survive, one scenario each. Every survived one ends with the digest
// of the undisturbed job.
#include "sim/simulated_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "base/log.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string explain(const SimulatedOutcome& outcome) {
  return outcome.reason + "\n" + absl::StrJoin(outcome.story, "\n") + "\n" + outcome.waiting;
}

class SimulatedJobTest : public testing::Test {
 protected:
  SimulatedJobTest() {
    configure_log("sim", LogLevel::kError);
    shape_.network.time_max = absl::Minutes(2);
    shape_.model.evaluate_every = 4;
    shape_.model.save_every = 5;
  }

  // A fault when `rank` passes `point` for the `passing`-th time.
  static SimulatedFault kill(int rank, const std::string& point, int64_t passing) {
    return {.kind = SimulatedFault::Kind::kKillWorker,
            .rank = Rank(rank),
            .point = point,
            .at_rank = Rank(rank),
            .passing = passing};
  }
  SimulatedOutcome run(std::vector<SimulatedFault> faults = {}) {
    return SimulatedJob(shape_, std::move(faults)).run();
  }
  // Runs it and expects the bits of the undisturbed job.
  SimulatedOutcome survives(std::vector<SimulatedFault> faults) {
    const SimulatedOutcome expected = run();
    const SimulatedOutcome outcome = run(std::move(faults));
    EXPECT_TRUE(expected.ok && outcome.ok) << explain(outcome);
    EXPECT_EQ(outcome.digest, expected.digest) << explain(outcome);
    EXPECT_THAT(outcome.violations, testing::IsEmpty()) << explain(outcome);
    EXPECT_EQ(outcome.samples, shape_.model.steps * shape_.model.micro_batches);
    return outcome;
  }
  static std::vector<int> rolled_back(const SimulatedOutcome& outcome) {
    EXPECT_FALSE(outcome.recoveries.empty()) << explain(outcome);
    return outcome.recoveries.empty() ? std::vector<int>()
                                      : outcome.recoveries[0].rolled_back_stages;
  }

  SimulatedShape shape_;
};

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
    EXPECT_THAT(outcome.recoveries[0].causes, Contains(HasSubstr("its stage does not move")));
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
  shape_.is_protected = false;
  EXPECT_TRUE(survives({kill(0, "step/forward", 21)}).recoveries[0].restarted_all);
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

TEST_F(SimulatedJobTest, DenseSnapshotsNowAndThen) {
  shape_.window = 1;
  shape_.period = 4;
  EXPECT_FALSE(survives({kill(0, "step/forward", 21)}).recoveries[0].restarted_all);
}

// ---- the control plane

TEST_F(SimulatedJobTest, AHungControllerIsReplacedAndNobodyElseIsLost) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopController,
                                              .lasts = absl::Seconds(5),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_EQ(outcome.controllers, 2);
  EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
}

TEST_F(SimulatedJobTest, AControllerThatStoodStillTakesNobodyForLost) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopController,
                                              .lasts = absl::Milliseconds(800),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_EQ(outcome.controllers, 1);
  EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
}

// Longer than a worker may be silent, shorter than an agent may: its workers are not to blame for
// the line.
TEST_F(SimulatedJobTest, ALineThatIsCutForAWhileCostsNothing) {
  for (const int node : {2, -1}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(node),
                                                .lasts = absl::Milliseconds(700),
                                                .time = absl::Milliseconds(60)}});
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
  }
}

TEST_F(SimulatedJobTest, AnAgentThatStandsStillForAWhileCostsNothing) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopAgent,
                                              .node = Node(2),
                                              .lasts = absl::Milliseconds(700),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
}

// A view opens while a node stands still: its worker does not report in time, and is given up
// before the node is. It must not be started there and be lost again with the node.
TEST_F(SimulatedJobTest, TheRolesOfAStoppedNodeWaitForTheVerdictOnIt) {
  shape_.model.steps = 150;
  shape_.copies = 2;
  for (const auto lasts : {absl::Milliseconds(700), absl::Seconds(5)}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopNode,
                                                .node = Node(2),
                                                .lasts = lasts,
                                                .time = absl::Milliseconds(60)},
                                               {.kind = SimulatedFault::Kind::kKillWorker,
                                                .rank = Rank(0),
                                                .time = absl::Milliseconds(65)}});
    ASSERT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
    EXPECT_THAT(outcome.recoveries[0].roles, ElementsAre("0.0", "1.0")) << explain(outcome);
    EXPECT_THAT(outcome.recoveries[0].causes[1], HasSubstr("did not report in time"));
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
    EXPECT_EQ(outcome.processes, 6) << "both roles are started once more" << explain(outcome);
  }
}

// What is promised today: a node that is not heard for too long is lost, and its role is recovered
// elsewhere. Left alone, it ends its workers when it is back.
TEST_F(SimulatedJobTest, ANodeThatIsCutForTooLongIsLost) {
  shape_.model.steps = 150;
  shape_.copies = 2;
  for (const bool is_ended : {true, false}) {
    shape_.ends_lost_nodes = is_ended;
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(2),
                                                .lasts = absl::Milliseconds(1400),
                                                .time = absl::Milliseconds(60)}});
    ASSERT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
    EXPECT_EQ(outcome.processes, 5) << "all others live on";
  }
}

// The same when its line breaks: that nobody died is not known.
TEST_F(SimulatedJobTest, ANodeWhoseLineBreaksIsLost) {
  for (const bool agent_is_late : {true, false}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kBreakLine,
                                                .node = Node(2),
                                                .lasts = absl::Milliseconds(400),
                                                .agent_is_late = agent_is_late,
                                                .time = absl::Milliseconds(60)}});
    ASSERT_FALSE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
  }
}

// And when the controller's own line is cut for too long all are lost: the job goes back to its
// durable state, and ends with the right bits.
TEST_F(SimulatedJobTest, AControllerThatIsCutOffForTooLongSendsAllBack) {
  shape_.model.steps = 150;
  for (const bool is_ended : {true, false}) {
    shape_.ends_lost_nodes = is_ended;
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(-1),
                                                .lasts = absl::Milliseconds(1400),
                                                .time = absl::Milliseconds(60)}});
    ASSERT_FALSE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_TRUE(outcome.recoveries[0].restarted_all) << explain(outcome);
  }
}

// An agent that cannot register in time with a new controller has its roles played elsewhere.
TEST_F(SimulatedJobTest, AnAgentThatStandsStillWhileControllersChangeIsNotWaitedFor) {
  const SimulatedOutcome outcome =
      survives({{.kind = SimulatedFault::Kind::kStopAgent,
                 .node = Node(2),
                 .lasts = absl::Milliseconds(600),
                 .time = absl::Milliseconds(55)},
                {.kind = SimulatedFault::Kind::kKillController, .time = absl::Milliseconds(60)}});
  EXPECT_THAT(outcome.marks, Contains("not adopted")) << explain(outcome);
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
}

// The workers of node 0 go on unheard in view 1 while the next controller begins anew with the
// spare; its first view must not be view 1, too.
TEST_F(SimulatedJobTest, AControllerThatHearsOfNobodyOpensViewsOfItsOwn) {
  shape_.nodes = 1;
  shape_.model.steps = 150;
  for (const bool is_ended : {true, false}) {
    shape_.ends_lost_nodes = is_ended;
    const SimulatedOutcome outcome =
        survives({{.kind = SimulatedFault::Kind::kDeafNode,
                   .node = Node(0),
                   .lasts = absl::Milliseconds(900),
                   .time = absl::Milliseconds(60)},
                  {.kind = SimulatedFault::Kind::kKillController, .time = absl::Milliseconds(65)}});
    EXPECT_THAT(outcome.marks, Contains("begun anew by a later controller")) << explain(outcome);
    EXPECT_EQ(outcome.processes, 8) << explain(outcome);
  }
}

TEST_F(SimulatedJobTest, ALostNodeComesBackAndIsASpare) {
  shape_.nodes = 2;
  shape_.spares = 0;
  shape_.model.steps = 60;
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kKillNode,
                                              .node = Node(0),
                                              .lasts = absl::Milliseconds(60),
                                              .time = absl::Milliseconds(60)},
                                             {.kind = SimulatedFault::Kind::kKillNode,
                                              .node = Node(1),
                                              .time = absl::Milliseconds(200)}});
  EXPECT_THAT(outcome.marks, Contains("node lost and back"));
  EXPECT_THAT(outcome.marks, testing::Not(Contains("no node was left"))) << explain(outcome);
}

TEST_F(SimulatedJobTest, WhenNoNodeIsLeftNodeZeroStartsAgain) {
  shape_.nodes = 1;
  shape_.spares = 0;
  const SimulatedOutcome outcome = survives(
      {{.kind = SimulatedFault::Kind::kKillNode, .node = Node(0), .time = absl::Milliseconds(60)}});
  EXPECT_THAT(outcome.marks, Contains("no node was left")) << explain(outcome);
  EXPECT_EQ(outcome.processes, 8);
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
