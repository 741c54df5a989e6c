// Nodes that will be taken away soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

ControllerOptions nodes(int nodes, int spares) {
  ControllerOptions options;
  options.nodes = nodes;
  options.spares = spares;
  return options;
}

TEST(LeavingNodes, ItsRolesMoveToASpareWhileTheJobTrains) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).did();
  job.node_leaves(1).wait(0.5);
  EXPECT_EQ(job.did(), "keep 2 on 2");
  job.node_keeps(2, 0, 2).commits(6, 7);
  EXPECT_THAT(job.did(), HasSubstr("1.0 copies to joiner on 2, 1.1 copies to joiner on 2"));
  job.hand_over({2, 3}).wait(0.5);
  EXPECT_EQ(job.did(),
            "1.0 stops at 10, 1.1 stops at 10, kill 1.0, kill 1.1, dismiss 1, start 1.0 on 2, "
            "start 1.1 on 2, go on in view 2");
  EXPECT_THAT(job.said(), HasSubstr("node 1 leaves"));
  EXPECT_TRUE(job.core().recoveries().empty()) << "that is no failure";
}

TEST(LeavingNodes, ItsRolesAreTakenAwayWhereTheyCannotMoveInTime) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).did();
  job.node_leaves(1).wait(0.5);
  EXPECT_EQ(job.did(), "keep 2 on 2");
  job.commits(6, 1300);
  EXPECT_THAT(job.did(), testing::StartsWith("kill 1.0, kill 1.1, dismiss 1, start 1.0 on 2"));
  EXPECT_THAT(job.said(), HasSubstr("is called off: no process was warm in time"));
  EXPECT_THAT(job.recovery().causes,
              testing::ElementsAre("1.0: node 1 leaves", "1.1: node 1 leaves"));
}

TEST(LeavingNodes, WithoutRoomAnywhereTheJobIsDrained) {
  ControlledJob job(nodes(2, 0));
  job.begins().commits(1, 5).did();
  job.node_leaves(1).wait(2);
  EXPECT_EQ(job.did(), "drain");
  EXPECT_THAT(job.said(), HasSubstr("node 1 leaves and no other can take its place"));
}

TEST(LeavingNodes, WithoutCopiesTheJobIsDrained) {
  ControllerOptions options = ControlledJob::unprotected();
  options.nodes = 2;
  options.spares = 1;
  ControlledJob job(options);
  job.begins().commits(1, 5).did();
  job.node_leaves(1).wait(2);
  EXPECT_EQ(job.did(), "drain");
}

TEST(LeavingNodes, ASpareJustGoes) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).did();
  job.node_leaves(2).wait(1);
  EXPECT_EQ(job.did(), "dismiss 2");
  job.loses_node(1).wait(0.5);
  EXPECT_EQ(job.did(), "start 1.0, start 1.1, go on in view 2") << "where there is no spare now";
}

TEST(LeavingNodes, OneThatLeavesTakesNothingNew) {
  ControlledJob job(nodes(2, 2));
  job.begins().commits(1, 5).did();
  job.node_leaves(2).node_leaves(1).wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("keep 2 on 3"));
  job.loses_node(1).wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("start 1.0 on 3, start 1.1 on 3"));
}

// Nobody would end it otherwise: what cannot train cannot be drained.
TEST(LeavingNodes, TheLastNodePlaysWhatIsLostOnItUntilTheJobIsDrained) {
  ControlledJob job(nodes(2, 0));
  job.begins().commits(1, 5).did();
  job.loses_node(0).node_leaves(1).wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("start 0.0 on 1, start 0.1 on 1"));
  job.worker(2).dies().wait(1);
  EXPECT_THAT(job.did(), HasSubstr("start 1.0 on 1"));
}

TEST(LeavingNodes, WhereAllLeaveTheJobIsDrained) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).did();
  job.node_leaves(0).node_leaves(1).node_leaves(2).wait(2);
  EXPECT_EQ(job.did(), "drain") << "nobody takes roles for a moment, and all stay to the end";
}

TEST(LeavingNodes, OneThatHasLeftMayComeBack) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).node_leaves(1).node_keeps(2, 0, 2).wait(0.5);
  job.hand_over({2, 3}).wait(0.5).commits(8, 9).did();
  job.node_comes(1).wait(0.5);
  EXPECT_EQ(job.did(), "") << "it is a spare now";
  job.loses_node(0).wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("start 0.0 on 1, start 0.1 on 1"));
}

TEST(LeavingNodes, DuringARecoveryItWaits) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).worker(0).stops().did();
  job.worker(1).dies().node_leaves(1).wait(1);
  EXPECT_THAT(job.did(), testing::Not(HasSubstr("dismiss"))) << "0.0 has not reported yet";
  job.wait(15);
  EXPECT_THAT(job.said(), HasSubstr("node 1 leaves"));
}

TEST(LeavingNodes, ItGoesThoughSomebodysWordOfItsStateWasLost) {
  ControlledJob job(nodes(2, 1));
  job.worker(0).restores_unheard().begins().node_leaves(1).wait(0.5).did();
  job.commits(1, 1).wait(0.5);
  EXPECT_THAT(job.did(), HasSubstr("keep 2 on 2"));
}

TEST(LeavingNodes, AtTheEndOfTheJobItWaitsForIt) {
  ControlledJob job(nodes(2, 1));
  job.begins().commits(1, 5).all_finish(5).did();
  job.node_leaves(1).wait(0.5);
  EXPECT_EQ(job.did(), "");
}

}  // namespace
}  // namespace evermoe
