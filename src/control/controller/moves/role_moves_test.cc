// Planned moves: what a controller answers, and what it does from the wish to the next commit.
#include "control/controller/moves/role_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ControllerOptions on_two_nodes(int spares = 1, int standbys = 0) {
  ControllerOptions options;
  options.nodes = 2;
  options.spares = spares;
  options.standbys = standbys;
  return options;
}

// A job of 2 stages x 2 lanes on 2 nodes that trains, with a spare.
struct TrainingJob : ControlledJob {
  explicit TrainingJob(const ControllerOptions& how = on_two_nodes()) : ControlledJob(how) {
    begins().commits(1, 5).did();
  }
};

const MoveRecord& newest(const ControlledJob& job) { return job.core().moves().back(); }

TEST(RoleMoves, ARoleMovesFromTheWishToTheNextCommit) {
  TrainingJob job;
  job.wants({2}).wait(0.1);
  EXPECT_EQ(job.did(),
            "accepted: role 1.0 moves from node 1 to node 2, as soon as a process is warm there "
            "and has its copies, keep 1 on 2");
  job.node_keeps(2, 1, 0).commits(6, 9);
  EXPECT_EQ(job.did(), "") << "nobody is warm";
  job.node_keeps(2, 0, 1).wait(0.1);
  EXPECT_EQ(job.did(), "2 awaits 1.0, 1.0 copies to joiner on 2");
  EXPECT_EQ(newest(job).state, MoveRecord::State::kCopying);
  job.commits(10, 12);
  EXPECT_EQ(job.did(), "");
  job.worker(2).gives_copies().wait(0.1);
  EXPECT_EQ(job.did(), "1.0 stops at 15") << "so that all hear of it in time";
  job.commits(13, 15).worker(2).hands_over(15).wait(0.1);
  EXPECT_EQ(job.did(), "kill 1.0, start 1.0 on 2, go on in view 2");
  EXPECT_EQ(newest(job).state, MoveRecord::State::kSwitching);
  job.commits(16, 16);
  EXPECT_EQ(newest(job).state, MoveRecord::State::kDone);
  EXPECT_EQ(newest(job).step, Step(15));
  EXPECT_EQ(newest(job).bytes, 1'000'000);
  EXPECT_THAT(newest(job).from, ElementsAre(Node(1)));
  EXPECT_THAT(newest(job).to, ElementsAre(Node(2)));
  EXPECT_LT(newest(job).warm, newest(job).copied);
  EXPECT_LT(newest(job).copied, newest(job).stopped);
  EXPECT_LT(newest(job).stopped, newest(job).resumed);
  EXPECT_TRUE(job.core().recoveries().empty());
  EXPECT_THAT(job.said(), testing::Not(HasSubstr("worker 1.0 moves to node 2: a standby")))
      << "once is enough";
}

TEST(RoleMoves, SeveralMoveInOneSwitch) {
  TrainingJob job;
  job.wants({2, 3}).node_keeps(2, 0, 2).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("2 awaits 1.0, 2 awaits 1.1, 1.0 copies to joiner on 2, "
                                   "1.1 copies to joiner on 2"));
  job.worker(3).gives_copies().wait(0.1);
  EXPECT_EQ(job.did(), "") << "the other one has not given its own";
  job.worker(2).gives_copies().wait(0.1);
  EXPECT_EQ(job.did(), "1.0 stops at 8, 1.1 stops at 8");
  job.commits(6, 8).worker(2).hands_over(8).wait(0.1);
  EXPECT_EQ(job.did(), "") << "the other one has not handed over";
  job.worker(3).hands_over(8).wait(0.1);
  EXPECT_EQ(job.did(), "kill 1.0, kill 1.1, start 1.0 on 2, start 1.1 on 2, go on in view 2");
  EXPECT_EQ(job.newest_stop().handed_over, Step(8)) << "to which all others have to come first";
}

TEST(RoleMoves, WhereStepsAreShortTheyAreToldMoreOfThemAhead) {
  ControllerOptions options = on_two_nodes();
  options.leave_ahead = absl::Seconds(1);
  TrainingJob job(options);
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).did();
  job.worker(2).gives_copies().wait(0.1);
  const auto steps =
      static_cast<int64_t>(std::ceil(1 / absl::ToDoubleSeconds(job.core().median_step())));
  EXPECT_GT(steps, 3);
  EXPECT_EQ(job.did(), absl::StrCat("1.0 stops at ", 5 + steps));
}

TEST(RoleMoves, CopiesThatTakeTooLongAreDoneWithout) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).did();
  job.commits(6, 100);
  EXPECT_EQ(job.did(), "");
  job.commits(101, 110);
  EXPECT_THAT(job.did(), StartsWith("1.0 stops at 10"));
}

// Each process tells of its own, some before the controller has heard of the commit.
TEST(RoleMoves, ConnectionsOfTheSwitchAreCounted) {
  TrainingJob job;
  job.worker(0).tells_connections(7);
  EXPECT_TRUE(job.core().moves().empty()) << "it has no move to do with";
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1);
  job.worker(1).tells_connections(7);
  job.hand_over({2}).wait(0.1).did();
  job.worker(2).tells_connections(3).commits(8, 8);
  ASSERT_EQ(newest(job).state, MoveRecord::State::kDone);
  const int64_t changes = job.core().move_changes();
  job.worker(0).tells_connections(1);
  EXPECT_EQ(newest(job).connections_opened, 4) << "none before the switch";
  EXPECT_GT(job.core().move_changes(), changes) << "the run is told again";
  job.worker(1).dies().wait(0.5).commits(9, 9);
  job.worker(1).tells_connections(3);
  EXPECT_EQ(newest(job).connections_opened, 4) << "a later view's";
}

TEST(RoleMoves, ConnectionsOfTheViewWithTheCommitAreCounted) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).hand_over({2}).wait(0.1).did();
  job.worker(2).dies().wait(0.5).commits(8, 8);
  job.worker(2).tells_connections(3);
  EXPECT_EQ(newest(job).connections_opened, 3);
}

TEST(RoleMoves, ByTheCommitTheStateIsThereThoughNobodyHasSaidSo) {
  TrainingJob job;
  job.worker(2).restores_unheard();
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).hand_over({2}).wait(0.1).did();
  job.commits(8, 8);
  ASSERT_EQ(newest(job).state, MoveRecord::State::kDone);
  EXPECT_LE(newest(job).planned, newest(job).restored);
  EXPECT_LE(newest(job).restored, newest(job).resumed);
}

// ---- with standbys

// Role 1.0 moves from node 1 to node 2, where one is warm.
struct JobWithStandby : TrainingJob {
  explicit JobWithStandby(int spares) : TrainingJob(on_two_nodes(spares, 1)) {
    node_keeps(2, 0, 1).did();
    wants({2}).wait(0.1).worker(2).gives_copies().wait(0.1);
    EXPECT_THAT(did(), HasSubstr("1.0 stops at 8"));
  }
};

TEST(RoleMoves, WhoseRoleAStandbyHasTakenTakesItsPlace) {
  JobWithStandby job(1);
  job.worker(2).hands_over(8).wait(0.1);
  EXPECT_EQ(job.did(), "1.0 stands by, start 1.0 on 2, go on in view 2");
  job.node_keeps(2, 0, 0).commits(9, 10).wait(0.1);
  EXPECT_EQ(job.did(), "") << "its agent has not told of it yet";
  job.node_keeps(1, 0, 1).commits(11, 12).wait(0.1);
  EXPECT_EQ(job.did(), "");
  job.node_keeps(1, 0, 0, "it ended").wait(0.1);
  EXPECT_EQ(job.did(), "keep 1 on 1");
}

TEST(RoleMoves, NotWhereNoStandbyWouldBeStarted) {
  JobWithStandby job(2);
  job.worker(2).hands_over(8).wait(0.1);
  EXPECT_THAT(job.did(), StartsWith("kill 1.0, start 1.0 on 2"));
  job.node_keeps(2, 0, 0).commits(9, 10).wait(0.1);
  EXPECT_EQ(job.did(), "keep 1 on 3") << "which plays no role";
}

TEST(RoleMoves, NotOnANodeThatLeaves) {
  TrainingJob job(on_two_nodes(1, 1));
  job.node_keeps(2, 0, 2).did();
  job.node_leaves(1).wait(0.1).hand_over({2, 3}).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("kill 1.0, kill 1.1"));
}

TEST(RoleMoves, RolesOfANodeStayTogetherWhereThereIsRoom) {
  TrainingJob job(on_two_nodes(2));
  job.wants({2, 3}).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("keep 2 on 2")) << "and not one on each spare";
}

TEST(RoleMoves, EachToItsOwnNodeInOneSwitch) {
  TrainingJob job(on_two_nodes(2));
  job.wants_places({{0, 2}, {3, 3}}).wait(0.1);
  EXPECT_EQ(job.did(),
            "accepted: role 0.0 moves from node 0 to node 2, role 1.1 moves from node 1 to node 3, "
            "as soon as a process is warm there and has its copies, keep 1 on 2, keep 1 on 3");
}

TEST(RoleMoves, RolesChangePlaces) {
  TrainingJob job;
  job.wants_places({{0, 1}, {3, 0}}).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("accepted: role 0.0 moves from node 0 to node 1, role 1.1 moves "
                                   "from node 1 to node 0"));
}

// ---- refused

TEST(RoleMoves, WishesThatCannotBeMetAreRefusedWithTheReason) {
  const auto answer = [](const ControllerOptions& how, const std::vector<int>& roles, int32_t to) {
    TrainingJob job(how);
    job.wants(roles, to);
    return job.did();
  };
  EXPECT_EQ(answer(on_two_nodes(), {2}, 1), "refused: role 1.0 is on node 1 already");
  EXPECT_EQ(answer(on_two_nodes(), {2}, 7), "refused: node 7 is not in this job");
  EXPECT_EQ(answer(on_two_nodes(), {2}, 0),
            "refused: node 0 has no room for role 1.0: a node plays at most 2 of this job");
  EXPECT_EQ(answer(on_two_nodes(0), {2}, -1),
            "refused: no other node has room for role 1.0: a node plays at most 2 of this job");
  EXPECT_EQ(answer(on_two_nodes(), {}, -1), "refused: no role is to move");
  EXPECT_THAT(answer(on_two_nodes(), {0, 1, 2, 3}, -1),
              StartsWith("refused: all that keep the copies of role 0.0 would move with it"));
  EXPECT_EQ(answer(on_two_nodes(), {2, 3, 2}, -1), "refused: role 1.0 is named twice");
  EXPECT_EQ(answer(on_two_nodes(), {2, 2}, 2), "refused: role 1.0 is named twice");
  ControllerOptions unprotected = ControlledJob::unprotected();
  unprotected.nodes = 2;
  unprotected.spares = 1;
  EXPECT_THAT(answer(unprotected, {2}, -1),
              HasSubstr("refused: protection.strategy = none keeps nothing in peers' memory"));
  ControlledJob begins(on_two_nodes());
  begins.wants({2});
  EXPECT_THAT(begins.did(), HasSubstr("refused: the job does not train yet"));
}

TEST(RoleMoves, OneMoveAtATime) {
  TrainingJob job;
  job.wants({2}).did();
  job.wants({3});
  EXPECT_EQ(job.did(), "refused: another move is under way: 1.0");
}

TEST(RoleMoves, ANodeIsDrainedOnlyWhereOthersHaveRoom) {
  TrainingJob job;
  job.wants_without(1);
  EXPECT_THAT(job.did(), HasSubstr("accepted: node 1 leaves when others play 1.0, 1.1"));
  job.wants_without(1);
  EXPECT_EQ(job.did(), "accepted: node 1 leaves already");
  job.wants_without(9);
  EXPECT_EQ(job.did(), "refused: node 9 is not in this job");
  TrainingJob full(on_two_nodes(0));
  full.wants_without(1).wait(1);
  EXPECT_THAT(full.did(), StartsWith("refused: no other node can take the place of node 1"));
}

// ---- called off

TEST(RoleMoves, WithoutAWarmProcessInTimeNothingChanges) {
  TrainingJob job;
  job.wants({2}).commits(6, 1300);
  EXPECT_THAT(job.did(), testing::Not(HasSubstr("kill")));
  EXPECT_EQ(newest(job).state, MoveRecord::State::kCalledOff);
  EXPECT_EQ(newest(job).reason, "no process was warm in time");
}

TEST(RoleMoves, TheJobEndsBeforeOneIsWarm) {
  TrainingJob job;
  job.wants({2}).did();
  job.commits(6, 60).evaluates(60).all_finish(60);
  for (int rank = 0; rank < ControlledJob::kWorkers; ++rank) job.worker(rank).leaves();
  EXPECT_TRUE(job.has_ended());
  EXPECT_EQ(newest(job).state, MoveRecord::State::kCalledOff);
  EXPECT_EQ(newest(job).reason, "the job ended before it was done");
}

TEST(RoleMoves, AProcessThatEndsWhileItWarmsUpIsStartedAgainAFewTimes) {
  TrainingJob job;
  job.wants({2}).did();
  for (int failure = 1; failure < StandbyBook::kFailuresMax; ++failure) {
    job.node_keeps(2, 1, 0).node_keeps(2, 0, 0, "exit code 2: no GPU is left").wait(0.1);
    EXPECT_EQ(job.did(), "keep 1 on 2");
  }
  job.node_keeps(2, 0, 0, "exit code 2: no GPU is left").wait(0.1);
  EXPECT_EQ(job.did(), "");
  EXPECT_EQ(newest(job).reason,
            "the processes that warm up on node 2 end: exit code 2: no GPU is left");
}

TEST(RoleMoves, AProcessThatDoesNotWaitForItsRoleInTimeCallsItOff) {
  TrainingJob job;
  job.joiners_never_come().wants({2}).node_keeps(2, 0, 1).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("2 awaits 1.0"));
  job.commits(6, 1300);
  EXPECT_EQ(job.did(), "2 forgets 1.0, 1.0 stays");
  EXPECT_EQ(newest(job).reason, "no process was warm in time");
}

TEST(RoleMoves, ALossOfTheRoleOrOfTheNewNodeCallsItOff) {
  TrainingJob lost;
  lost.wants({2}).wait(0.1).worker(2).dies().wait(0.5);
  EXPECT_EQ(newest(lost).reason, "role 1.0 is lost");
  TrainingJob node;
  node.wants({2}).node_keeps(2, 0, 1).wait(0.1).did();
  node.loses_node(2).wait(0.1);
  EXPECT_EQ(newest(node).reason, "node 2 is lost");
  EXPECT_EQ(node.did(), "2 forgets 1.0, 1.0 stays");
}

TEST(RoleMoves, WhoWaitsForARoleThatIsLostGoesOnDoingSo) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).did();
  job.worker(2).dies().wait(0.5);
  EXPECT_EQ(newest(job).reason, "role 1.0 is lost");
  EXPECT_THAT(job.did(), testing::Not(HasSubstr("forgets")));
}

TEST(RoleMoves, ARoleThatDoesNotHandOverInTimeStays) {
  TrainingJob job;
  job.wants({2, 3}).node_keeps(2, 0, 2).wait(0.1);
  job.worker(2).gives_copies().worker(3).gives_copies().wait(0.1).did();
  job.worker(2).hands_over(8).commits(6, 900);
  EXPECT_EQ(job.did(), "2 forgets 1.0, 2 forgets 1.1, 1.0 stays, 1.1 stays");
  EXPECT_EQ(newest(job).reason, "not all roles had handed over their states in time");
}

// Others that have stopped would wait for it, and it for them in the step after.
TEST(RoleMoves, WhereOneHearsTooLateWhereToStopAllAreToldOnceMoreAndEarlier) {
  TrainingJob job;
  job.wants({2, 3}).node_keeps(2, 0, 2).wait(0.1);
  job.worker(2).gives_copies().worker(3).gives_copies().wait(0.1).did();
  job.worker(2).hands_over(8).worker(3).cannot_leave(CannotLeave::Why::kTooLate).wait(0.1);
  EXPECT_EQ(job.did(),
            "2 forgets 1.0, 2 forgets 1.1, 1.0 stays, 1.1 stays, 2 awaits 1.0, "
            "2 awaits 1.1, 1.0 copies to joiner on 2, 1.1 copies to joiner on 2");
  job.worker(2).gives_copies().worker(3).gives_copies().wait(0.1);
  EXPECT_EQ(job.did(), "1.0 stops at 11, 1.1 stops at 11") << "six steps ahead instead of three";
}

TEST(RoleMoves, OneAloneThatHearsTooLateStopsLater) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).worker(2).gives_copies().wait(0.1).did();
  job.worker(2).cannot_leave(CannotLeave::Why::kTooLate).wait(0.1);
  EXPECT_EQ(job.did(), "");
  job.worker(2).hands_over(9).wait(0.1);
  EXPECT_EQ(job.did(), "kill 1.0, start 1.0 on 2, go on in view 2");
}

TEST(RoleMoves, ARoleWhoseStateDoesNotArriveStays) {
  TrainingJob job;
  job.wants({2, 3}).node_keeps(2, 0, 2).wait(0.1);
  job.worker(2).gives_copies().worker(3).gives_copies().wait(0.1).did();
  job.worker(3).cannot_leave(CannotLeave::Why::kNotTaken).wait(0.1);
  EXPECT_EQ(job.did(), "2 forgets 1.0, 2 forgets 1.1, 1.0 stays, 1.1 stays");
  EXPECT_EQ(newest(job).reason, "what role 1.1 hands over does not arrive");
}

TEST(RoleMoves, AnotherFailureMeanwhileIsGotOverFirst) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).did();
  job.worker(0).dies().wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("start 0.0"));
  job.node_keeps(2, 0, 1).commits(6, 7).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("2 awaits 1.0, 1.0 copies to joiner on 2"))
      << "the order is given again";
  job.worker(2).gives_copies().wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("1.0 stops at 10"));
  job.worker(2).hands_over(10).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("kill 1.0, start 1.0 on 2"));
}

TEST(RoleMoves, AProcessThatIsNotWarmAnyMoreIsReplacedFirst) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).worker(2).gives_copies().wait(0.1).did();
  job.node_keeps(2, 0, 0, "killed by signal 9 (Killed)").wait(0.1);
  EXPECT_EQ(job.did(), "2 forgets 1.0, 1.0 stays, keep 1 on 2");
  job.worker(2).hands_over(8).node_keeps(2, 0, 1).commits(6, 6).wait(0.1);
  EXPECT_EQ(job.did(), "2 awaits 1.0, 1.0 copies to joiner on 2")
      << "what it handed over before is nothing";
}

TEST(RoleMoves, WhereTwoAreWarmTheLossOfTheOneThatWaitsIsSeen) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 2).wait(0.1).did();
  job.node_keeps(2, 0, 1, "killed by signal 9 (Killed)").wait(0.1);
  EXPECT_EQ(job.did(), "2 forgets 1.0, 1.0 stays, 2 awaits 1.0, 1.0 copies to joiner on 2");
}

TEST(RoleMoves, WhatFailsAfterTheSwitchIsALoss) {
  TrainingJob job;
  job.wants({2}).node_keeps(2, 0, 1).wait(0.1).worker(2).gives_copies().wait(0.1);
  job.worker(2).hands_over(8).wait(0.1).did();
  job.worker(2).dies().wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("start 1.0 on 2"));
  job.commits(9, 9);
  EXPECT_EQ(newest(job).state, MoveRecord::State::kDone);
  EXPECT_EQ(job.core().recoveries().size(), 1u);
}

}  // namespace
}  // namespace evermoe
