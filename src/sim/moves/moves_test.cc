// Planned moves, one scenario each: nobody goes back, and whatever fails meanwhile costs no bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Kind = SimulatedFault::Kind;

// Each role on a node of its own, and one node is spare.
class SimulatedMoves : public SimulatedJobTest {
 protected:
  SimulatedMoves() { shape_.model.steps = 24; }

  static SimulatedFault move(int rank) { return move(MoveWanted{.roles = {Rank(rank)}}); }
  static SimulatedFault move(const MoveWanted& wish) {
    return {.kind = Kind::kMoveRoles, .wish = wish, .time = absl::Milliseconds(140)};
  }
  // In the view of the move, not when the job begins, where all roles pass some of the points.
  static SimulatedFault at_point(SimulatedFault fault, const std::string& point) {
    const bool is_passed_before = point.starts_with("recovery/") && point != "recovery/restored";
    fault.point = point;
    fault.passing = is_passed_before ? 5 : 1;
    return fault;
  }
  static std::vector<MoveRecord::State> ends(const SimulatedOutcome& outcome) {
    std::vector<MoveRecord::State> states;
    for (const MoveRecord& move : outcome.moves) states.push_back(move.state);
    return states;
  }
  static int64_t steps_again(const SimulatedOutcome& outcome) {
    int64_t again = 0;
    for (const MemberWork& work : outcome.work) again += work.steps_recomputed;
    return again;
  }
};

TEST_F(SimulatedMoves, EveryRoleMovesWithoutAStepAgain) {
  for (const StrategyKind strategy : {StrategyKind::kSparse, StrategyKind::kDense,
                                      StrategyKind::kGradients, StrategyKind::kPeerMemory}) {
    shape_.strategy = strategy;
    shape_.window = strategy == StrategyKind::kSparse ? 3 : 1;
    shape_.period = 3;
    for (int rank = 0; rank < 4; ++rank) {
      const SimulatedOutcome outcome = survives({move(rank)});
      EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kDone)) << explain(outcome);
      EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
      EXPECT_EQ(steps_again(outcome), 0) << explain(outcome);
      EXPECT_EQ(outcome.processes, 5);
      EXPECT_EQ(outcome.moves[0].connections_opened, 4)
          << "the new process with the one before and all others";
      EXPECT_THAT(outcome.marks, Contains("joiner was connected beforehand"));
    }
  }
}

// The node to which it moves has time for that (SimulatedWorkers::come_to_life()).
TEST_F(SimulatedMoves, WhoWasGivenAStateAheadHasASingleUpdateToMakeWhenAllWait) {
  shape_.strategy = StrategyKind::kGradients;
  shape_.window = 1;
  shape_.period = 4;
  const SimulatedOutcome outcome = survives({move(1)});
  EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kDone)) << explain(outcome);
  EXPECT_THAT(outcome.marks, Contains("state restored ahead"));
  EXPECT_EQ(outcome.passings.at({"catch_up/update", 1}), 1) << explain(outcome);
}

// Some of the pauses are at the step after which role 1 stops.
TEST_F(SimulatedMoves, ALaneThatIsSlowAtAnUpdateTakesNobodyBack) {
  for (const StrategyKind strategy : {StrategyKind::kSparse, StrategyKind::kDense}) {
    shape_.strategy = strategy;
    shape_.window = strategy == StrategyKind::kSparse ? 3 : 1;
    shape_.period = 3;
    for (int passing = 1; passing <= 20; ++passing) {
      SCOPED_TRACE(absl::StrCat("update ", passing));
      const SimulatedFault slow{
          .kind = Kind::kPause, .point = "step/updated", .at_rank = Rank(0), .passing = passing};
      const SimulatedOutcome outcome = survives({move(1), slow});
      EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kDone)) << explain(outcome);
      EXPECT_EQ(steps_again(outcome), 0) << explain(outcome);
    }
  }
}

// To nodes that are spare, 4 and 5, and where the role before has been.
TEST_F(SimulatedMoves, SeveralMoveInOneSwitchWithoutAStepAgain) {
  shape_.copies = 3;  // somebody who keeps a role's copies stays
  shape_.spares = 2;
  const std::vector<MoveWanted> wishes = {
      {.roles = {Rank(0), Rank(2)}, .to = {Node(4), Node(5)}},
      {.roles = {Rank(0), Rank(1)}, .to = {Node(5), Node(4)}},
      {.roles = {Rank(0), Rank(2)}, .to = {Node(-1), Node(-1)}},
      {.roles = {Rank(1), Rank(2), Rank(3)}, .to = {Node(-1), Node(-1), Node(-1)}},
      {.roles = {Rank(3), Rank(1)}, .to = {Node(4), Node(-1)}}};
  for (const StrategyKind strategy : {StrategyKind::kSparse, StrategyKind::kGradients}) {
    shape_.strategy = strategy;
    shape_.window = strategy == StrategyKind::kSparse ? 3 : 1;
    shape_.period = 3;
    for (const MoveWanted& wish : wishes) {
      const SimulatedOutcome outcome = survives({move(wish)});
      EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kDone)) << explain(outcome);
      EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
      EXPECT_EQ(steps_again(outcome), 0) << explain(outcome);
      EXPECT_THAT(outcome.marks, Contains("joiners were connected beforehand"));
    }
  }
}

// There and back, by the processes that were there: none begins.
TEST_F(SimulatedMoves, WhoHasHandedItsRoleOverWaitsAsAStandbyForTheNext) {
  shape_.standbys = 1;
  SimulatedFault back = move(MoveWanted{.roles = {Rank(1)}, .to = {Node(1)}});
  back.time = absl::Milliseconds(280);
  const SimulatedOutcome outcome = survives({move(1), back});
  EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kDone, MoveRecord::State::kDone))
      << explain(outcome);
  EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
  EXPECT_EQ(steps_again(outcome), 0) << explain(outcome);
  EXPECT_EQ(outcome.processes, 5) << explain(outcome);
}

TEST_F(SimulatedMoves, WhoeverDiesMeanwhileIsAnOrdinaryLoss) {
  for (const char* const point :
       {"move/copying", "move/hand_over", "move/handed_over", "recovery/stopped", "recovery/plan",
        "recovery/opening", "recovery/restored"}) {
    for (int rank = 0; rank < 4; ++rank) {
      SCOPED_TRACE(absl::StrCat(point, ", rank ", rank));
      const SimulatedOutcome outcome =
          survives({move(1), at_point({.kind = Kind::kKillWorker, .rank = Rank(rank)}, point)});
      for (const RecoveryRecord& recovery : outcome.recoveries)
        EXPECT_FALSE(recovery.restarted_all) << explain(outcome);
    }
    SCOPED_TRACE(absl::StrCat(point, ", the controller"));
    survives({move(1), at_point({.kind = Kind::kKillController}, point)});
  }
}

// The order to stop comes to one of two lanes when it has begun the step after: it waits in there
// for the other one, which has stopped, and that one for it.
TEST_F(SimulatedMoves, ALaneThatHearsTooLateWhereToStopDoesNotHoldTheJobUp) {
  shape_.copies = 3;
  shape_.spares = 2;
  shape_.model.steps = 48;
  int late = 0;
  for (int milliseconds = 50; milliseconds <= 150; milliseconds += 10) {
    SCOPED_TRACE(absl::StrCat(milliseconds, " ms"));
    SimulatedFault deaf{.kind = Kind::kDeafNode, .node = Node(1)};
    deaf.lasts = absl::Milliseconds(milliseconds);
    deaf.at_rank = Rank(1);
    const SimulatedOutcome outcome =
        survives({move(MoveWanted{.roles = {Rank(0), Rank(1)}, .to = {Node(4), Node(5)}}),
                  at_point(deaf, "move/copying")});
    EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kDone)) << explain(outcome);
    EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
    EXPECT_THAT(outcome.story, Not(Contains(HasSubstr("nothing has happened"))))
        << explain(outcome);
    if (absl::StrContains(explain(outcome), "one heard too late where to stop; once more")) ++late;
  }
  EXPECT_GT(late, 0);
}

// Between the former process and the new one nothing arrives, and neither of them learns of it.
TEST_F(SimulatedMoves, AStateThatDoesNotArriveCallsTheMoveOff) {
  shape_.model.steps = 48;
  shape_.network.silence_min = shape_.network.silence_max = absl::Minutes(1);
  SimulatedFault cut{.kind = Kind::kCutWorkers, .node = Node(1), .peer = Node(4)};
  cut.lasts = absl::Seconds(30);
  const SimulatedOutcome outcome = survives({move(1), at_point(cut, "move/hand_over")});
  EXPECT_THAT(ends(outcome), ElementsAre(MoveRecord::State::kCalledOff)) << explain(outcome);
  EXPECT_EQ(outcome.moves[0].reason, "what role 0.1 hands over does not arrive");
  EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
  EXPECT_THAT(outcome.story, Not(Contains(HasSubstr("nothing has happened")))) << explain(outcome);
}

// The new process has the windows of its role, and the copies that the former one kept of others.
TEST_F(SimulatedMoves, OneCopyIsAsGoodAfterwardsAsBefore) {
  shape_.window = 4;
  int later = 0;
  for (int rank = 0; rank < 4; ++rank) {
    for (int milliseconds = 150; milliseconds < 300; milliseconds += 15) {
      SCOPED_TRACE(absl::StrCat("rank ", rank, " at ", milliseconds, " ms"));
      const SimulatedOutcome outcome = survives({move(0),
                                                 {.kind = Kind::kKillWorker,
                                                  .rank = Rank(rank),
                                                  .time = absl::Milliseconds(milliseconds)}});
      for (const RecoveryRecord& recovery : outcome.recoveries)
        EXPECT_FALSE(recovery.restarted_all) << explain(outcome);
      if (ends(outcome) == std::vector{MoveRecord::State::kDone}) ++later;
    }
  }
  EXPECT_GT(later, 10) << "few losses came after the switch";
}

// What stage 0 has sent since its window went with the process that has left.
TEST_F(SimulatedMoves, ANeighbourThatIsLostSoonAfterwardsTakesTheStageAlong) {
  shape_.window = 4;
  int along = 0;
  for (int milliseconds = 160; milliseconds < 300; milliseconds += 10) {
    const SimulatedFault later{
        .kind = Kind::kKillWorker, .rank = Rank(2), .time = absl::Milliseconds(milliseconds)};
    const SimulatedOutcome outcome = survives({move(0), later});
    const bool is_later =
        ends(outcome) == std::vector{MoveRecord::State::kDone} && outcome.recoveries.size() == 1;
    if (is_later && rolled_back(outcome) == std::vector{0, 1}) ++along;
  }
  EXPECT_GT(along, 0) << "no loss came between the switch and the next complete window";
}

}  // namespace
}  // namespace evermoe
