// Faults of the control plane that a job has to survive: controllers, agents and lines that die,
// stand still or are cut, and nodes that are taken for lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class ControlPlaneTest : public SimulatedJobTest {};

TEST_F(ControlPlaneTest, AHungControllerIsReplacedAndNobodyElseIsLost) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopController,
                                              .lasts = absl::Seconds(5),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_EQ(outcome.controllers, 2);
  EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
}

TEST_F(ControlPlaneTest, AControllerThatStoodStillTakesNobodyForLost) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopController,
                                              .lasts = absl::Milliseconds(800),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_EQ(outcome.controllers, 1);
  EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
}

// Longer than a worker may be silent, shorter than an agent may: its workers are not to blame for
// the line.
TEST_F(ControlPlaneTest, ALineThatIsCutForAWhileCostsNothing) {
  for (const int node : {2, -1}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(node),
                                                .lasts = absl::Milliseconds(700),
                                                .time = absl::Milliseconds(60)}});
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
  }
}

TEST_F(ControlPlaneTest, AnAgentThatStandsStillForAWhileCostsNothing) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopAgent,
                                              .node = Node(2),
                                              .lasts = absl::Milliseconds(700),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
}

// A view opens while a node stands still: its worker cannot report. It is waited for until the node
// is heard again, or is lost; it must not be started there and be lost again with the node.
TEST_F(ControlPlaneTest, TheRolesOfAStoppedNodeWaitForTheVerdictOnIt) {
  shape_.model.steps = 150;
  shape_.copies = 2;
  for (const bool comes_back : {true, false}) {
    const auto lasts = comes_back ? absl::Milliseconds(700) : absl::Seconds(5);
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kStopNode,
                                                .node = Node(2),
                                                .lasts = lasts,
                                                .time = absl::Milliseconds(60)},
                                               {.kind = SimulatedFault::Kind::kKillWorker,
                                                .rank = Rank(0),
                                                .time = absl::Milliseconds(65)}});
    ASSERT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
    EXPECT_EQ(outcome.processes, comes_back ? 5 : 6) << explain(outcome);
    if (comes_back) continue;
    EXPECT_THAT(outcome.recoveries[0].roles, ElementsAre("0.0", "1.0")) << explain(outcome);
    EXPECT_THAT(outcome.recoveries[0].causes[1], HasSubstr("no sign of life"));
  }
}

// A control line is not the job: its worker lives, or the others could not go on.
TEST_F(ControlPlaneTest, ANodeThatIsCutOffForLongIsNotLostWhileTheJobGoesOn) {
  shape_.network.delay_max = absl::Milliseconds(5);
  shape_.model.steps = 400;
  for (const auto lasts : {absl::Milliseconds(400), absl::Milliseconds(1400), absl::Seconds(13)}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(2),
                                                .lasts = lasts,
                                                .time = absl::Milliseconds(60)}});
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_EQ(outcome.processes, 4) << "all live on";
    EXPECT_GT(outcome.duration, lasts) << "or it was not tried";
  }
}

// It is lost when the others miss its worker, and the line says nothing to the contrary.
TEST_F(ControlPlaneTest, ANodeThatDiesBehindACutLineIsLost) {
  shape_.model.steps = 150;
  shape_.copies = 2;
  for (const bool is_ended : {true, false}) {
    shape_.ends_lost_nodes = is_ended;
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(2),
                                                .lasts = absl::Seconds(3),
                                                .time = absl::Milliseconds(60)},
                                               {.kind = SimulatedFault::Kind::kKillWorker,
                                                .rank = Rank(2),
                                                .time = absl::Milliseconds(70)}});
    ASSERT_FALSE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
  }
}

// That nobody died is soon known.
TEST_F(ControlPlaneTest, ANodeWhoseLineBreaksComesBackOnAnotherAndNobodyIsLost) {
  for (const bool agent_is_late : {true, false}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kBreakLine,
                                                .node = Node(2),
                                                .lasts = absl::Milliseconds(40),
                                                .agent_is_late = agent_is_late,
                                                .time = absl::Milliseconds(60)}});
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_EQ(outcome.processes, 4) << explain(outcome);
  }
}

// An agent that does not know that its line is broken comes back late, but its worker lives, or the
// others could not go on.
TEST_F(ControlPlaneTest, ANodeThatComesBackLateIsNotLostWhileTheJobGoesOn) {
  shape_.network.delay_max = absl::Milliseconds(5);
  shape_.model.steps = 100;
  for (const auto lasts : {absl::Milliseconds(400), absl::Milliseconds(1400)}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kBreakLine,
                                                .node = Node(2),
                                                .lasts = lasts,
                                                .agent_is_late = true,
                                                .time = absl::Milliseconds(300)}});
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_EQ(outcome.processes, 4) << explain(outcome);
    EXPECT_GT(outcome.duration, lasts) << "or it was not tried";
  }
}

// The others miss its worker.
TEST_F(ControlPlaneTest, ANodeThatDiesBehindABrokenLineIsLost) {
  shape_.network.delay_max = absl::Milliseconds(5);
  shape_.model.steps = 100;
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kBreakLine,
                                              .node = Node(2),
                                              .lasts = absl::Milliseconds(400),
                                              .agent_is_late = true,
                                              .time = absl::Milliseconds(300)},
                                             {.kind = SimulatedFault::Kind::kKillWorker,
                                              .rank = Rank(2),
                                              .time = absl::Milliseconds(310)}});
  ASSERT_FALSE(outcome.recoveries.empty()) << explain(outcome);
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
}

// When most nodes are silent at once it is the controller that is cut off: nobody is lost, and
// agents that have given it up meanwhile come back with their workers.
TEST_F(ControlPlaneTest, AControllerThatIsCutOffTakesNobodyForLost) {
  shape_.network.delay_max = absl::Milliseconds(5);
  shape_.model.steps = 100;
  for (const auto lasts : {absl::Milliseconds(400), absl::Milliseconds(1400), absl::Seconds(3)}) {
    const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kCutLine,
                                                .node = Node(-1),
                                                .lasts = lasts,
                                                .time = absl::Milliseconds(60)}});
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_EQ(outcome.processes, 4) << explain(outcome);
    EXPECT_EQ(outcome.controllers, 1);
  }
}

// Its worker lives, or the others could not go on: it is waited for, and taken into the view that
// they are in.
TEST_F(ControlPlaneTest, AnAgentThatStandsStillWhileControllersChangeIsWaitedForWhileTheJobGoesOn) {
  shape_.network.delay_max = absl::Milliseconds(5);
  shape_.model.steps = 200;
  for (const auto lasts : {absl::Milliseconds(600), absl::Seconds(5)}) {
    const SimulatedOutcome outcome =
        survives({{.kind = SimulatedFault::Kind::kStopAgent,
                   .node = Node(2),
                   .lasts = lasts,
                   .time = absl::Milliseconds(55)},
                  {.kind = SimulatedFault::Kind::kKillController, .time = absl::Milliseconds(60)}});
    EXPECT_EQ(outcome.controllers, 2);
    EXPECT_TRUE(outcome.recoveries.empty()) << explain(outcome);
    EXPECT_EQ(outcome.processes, 4) << "all live on";
    EXPECT_GT(outcome.duration, absl::Milliseconds(60) + lasts) << "or it was not tried";
  }
}

// Whoever misses it says so.
TEST_F(ControlPlaneTest, AWorkerThatDiesWhileControllersChangeIsNotWaitedFor) {
  const SimulatedOutcome outcome = survives(
      {{.kind = SimulatedFault::Kind::kStopAgent,
        .node = Node(2),
        .lasts = absl::Seconds(5),
        .time = absl::Milliseconds(55)},
       {.kind = SimulatedFault::Kind::kKillWorker, .rank = Rank(2), .time = absl::Milliseconds(58)},
       {.kind = SimulatedFault::Kind::kKillController, .time = absl::Milliseconds(60)}});
  EXPECT_THAT(outcome.marks, Contains("not adopted")) << explain(outcome);
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
  EXPECT_LT(outcome.duration, absl::Seconds(4)) << explain(outcome);
}

// The workers of node 0 go on unheard in view 1 while the next controller begins anew with the
// spare; its first view must not be view 1, too.
TEST_F(ControlPlaneTest, AControllerThatHearsOfNobodyOpensViewsOfItsOwn) {
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

TEST_F(ControlPlaneTest, ALostNodeComesBackAndIsASpare) {
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

// The spare has one, so the role moves there though its own node lives; the next one is kept where
// there is room now.
TEST_F(ControlPlaneTest, AWarmStandbyTakesTheRoleOfAKilledProcess) {
  shape_.nodes = 4;
  shape_.spares = 1;
  shape_.standbys = 1;
  shape_.model.steps = 60;
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kKillWorker,
                                              .rank = Rank(2),
                                              .time = absl::Milliseconds(120)},
                                             {.kind = SimulatedFault::Kind::kKillWorker,
                                              .rank = Rank(0),
                                              .time = absl::Milliseconds(350)}});
  EXPECT_THAT(outcome.marks, Contains("standby takes a role")) << explain(outcome);
  ASSERT_EQ(outcome.recoveries.size(), 2u) << explain(outcome);
  EXPECT_THAT(outcome.recoveries[0].standby_roles, ElementsAre("1.0")) << explain(outcome);
  EXPECT_THAT(outcome.recoveries[1].standby_roles, ElementsAre("0.0")) << explain(outcome);
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
}

TEST_F(ControlPlaneTest, AStandbyThatDiesIsReplacedAndALostNodeTakesItsOwnAlong) {
  shape_.nodes = 2;
  shape_.spares = 1;
  shape_.standbys = 1;
  shape_.model.steps = 60;
  const SimulatedOutcome outcome = survives(
      {{.kind = SimulatedFault::Kind::kKillStandby,
        .node = Node(2),
        .time = absl::Milliseconds(120)},
       {.kind = SimulatedFault::Kind::kKillNode, .node = Node(2), .time = absl::Milliseconds(220)},
       {.kind = SimulatedFault::Kind::kKillWorker,
        .rank = Rank(1),
        .time = absl::Milliseconds(400)}});
  EXPECT_THAT(outcome.story,
              Contains(HasSubstr("a standby on node 2 has ended: killed by signal 9 (Killed)")));
  ASSERT_FALSE(outcome.recoveries.empty()) << explain(outcome);
  EXPECT_THAT(outcome.recoveries.back().standby_roles, ElementsAre("0.1")) << explain(outcome);
}

// Whatever is wrong with the role and its node: elsewhere it runs.
TEST_F(ControlPlaneTest, ARoleThatKeepsDyingOnItsNodeMovesToTheSpare) {
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kDoomRole,
                                              .rank = Rank(2),
                                              .node = Node(2),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_THAT(outcome.marks, Contains("spare takes over")) << explain(outcome);
  EXPECT_THAT(outcome.story,
              Contains(HasSubstr("worker 1.0 moves to node 4: it has ended 2 times in a row soon "
                                 "after its start on node 2")));
  EXPECT_LE(outcome.processes, 4 + 3) << explain(outcome);
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
}

TEST_F(ControlPlaneTest, WithoutASpareItSharesANode) {
  shape_.spares = 0;
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kDoomRole,
                                              .rank = Rank(2),
                                              .node = Node(2),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_THAT(outcome.story,
              Contains(HasSubstr("worker 1.0 moves to node 0: it has ended 2 times in a row soon "
                                 "after its start on node 2")));
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
}

TEST_F(ControlPlaneTest, ARoleThatDiesWhereverItIsIsGivenUpInTheEnd) {
  shape_.spares = 0;
  std::vector<SimulatedFault> faults;
  for (int node = 0; node < 4; ++node)
    faults.push_back({.kind = SimulatedFault::Kind::kDoomRole,
                      .rank = Rank(2),
                      .node = Node(node),
                      .time = absl::Milliseconds(60)});
  const SimulatedOutcome outcome = run(std::move(faults));
  EXPECT_TRUE(outcome.ended) << explain(outcome);
  EXPECT_THAT(outcome.reason, HasSubstr("restarts in a row of worker 1.0 without progress"))
      << explain(outcome);
  EXPECT_THAT(outcome.reason, HasSubstr("(run.restarts_max)"));
  EXPECT_GT(outcome.duration, absl::Seconds(5)) << "it waits between starts";
}

TEST_F(ControlPlaneTest, WhenNoNodeIsLeftNodeZeroStartsAgain) {
  shape_.nodes = 1;
  shape_.spares = 0;
  const SimulatedOutcome outcome = survives(
      {{.kind = SimulatedFault::Kind::kKillNode, .node = Node(0), .time = absl::Milliseconds(60)}});
  EXPECT_THAT(outcome.marks, Contains("no node was left")) << explain(outcome);
  EXPECT_EQ(outcome.processes, 8);
}

}  // namespace
}  // namespace evermoe
