// Machines that are not fit to play a role, and incidents: what the controller does with the first
// and how it counts the second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/controlled_job_testing.h"
#include "control/health/node_health.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using Job = ControlledJob;

const std::vector<std::string> kTooLittle = {"memory: 1 MB available, needed: 2 MB"};

ControllerOptions with_nodes(int nodes, int spares) {
  ControllerOptions options;
  options.nodes = nodes;
  options.spares = spares;
  return options;
}

// ---- at the beginning

TEST(UnfitNodes, ASpareTakesItsPlaceAtTheBeginning) {
  Job job(with_nodes(2, 1), /*unfit=*/{1});
  job.begins();
  EXPECT_EQ(job.did(),
            "start 0.0, start 0.1, start 1.0 on 2, start 1.1 on 2, restart all in view 1");
  EXPECT_THAT(job.said(), HasSubstr("node 1 is left out: its machine is not fit to play a role: "
                                    "memory: 1 MB available, needed: 2 MB"));
}

TEST(UnfitNodes, WithTooFewOthersTheJobIsRefusedAfterAWhileInOneLine) {
  Job job(with_nodes(2, 1), /*unfit=*/{1, 2});
  job.wait(29);
  EXPECT_EQ(job.did(), "");
  EXPECT_THAT(job.said(), HasSubstr("1 of the 2 machines that the job needs are there and fit: "
                                    "the job waits for others, at most 30s"));
  job.wait(2);
  EXPECT_EQ(job.did(), "refuse");
  EXPECT_TRUE(job.end().bad_input);
  EXPECT_EQ(job.end().reason,
            "1 of the 2 machines that the job needs are there and fit: node 1: memory: 1 MB "
            "available, needed: 2 MB; node 2: memory: 1 MB available, needed: 2 MB");
}

TEST(UnfitNodes, ALaterCheckMayPassInTime) {
  Job job(with_nodes(2, 0), /*unfit=*/{1});
  job.wait(20).node_is_checked(1, {}).wait(0.1);
  EXPECT_EQ(job.did(),
            "start 0.0, start 0.1, start 1.0 on 1, start 1.1 on 1, restart all in view 1");
  EXPECT_THAT(job.said(), HasSubstr("node 1 is fit again"));
}

TEST(UnfitNodes, WhatALateMeasurementFindsIsTold) {
  Job job(with_nodes(2, 0));
  job.node_is_checked(1, {kNotMeasured}).node_is_checked(1, {"disk: 0 MB free"});
  EXPECT_THAT(job.said(), AllOf(HasSubstr("node 1 is left out: its machine is not fit to play a "
                                          "role: health: not measured yet"),
                                HasSubstr("not fit to play a role: disk: 0 MB free")));
}

TEST(UnfitNodes, ASpareThatComesLaterMayTakeItsPlace) {
  Job job(with_nodes(2, 0), /*unfit=*/{1});
  job.wait(20).node_comes(2).wait(0.1);
  EXPECT_EQ(job.did(),
            "start 0.0, start 0.1, start 1.0 on 2, start 1.1 on 2, restart all in view 1");
}

// ---- machines that come one after the other

ControllerOptions that_waits(int nodes) {
  ControllerOptions options = with_nodes(nodes, 0);
  options.begin_max = absl::Seconds(60);
  return options;
}

TEST(LateNodes, TheJobWaitsForThoseThatItNeeds) {
  Job job(that_waits(2), /*unfit=*/{}, /*late=*/{1});
  EXPECT_EQ(job.wait(40).did(), "");
  EXPECT_THAT(job.said(), HasSubstr("1 of the 2 machines that the job needs are there: it waits "
                                    "for the others, at most 1m"));
  job.node_comes(1).wait(0.1);
  EXPECT_EQ(job.did(),
            "start 0.0, start 0.1, start 1.0 on 1, start 1.1 on 1, restart all in view 1");
}

TEST(LateNodes, ButNotForEver) {
  Job job(that_waits(2), /*unfit=*/{}, /*late=*/{1});
  EXPECT_EQ(job.wait(60.1).did(),
            "start 0.0, start 0.1, start 1.0, start 1.1, restart all in view 1");
}

TEST(LateNodes, OneThatIsNotFitIsNotJudgedBeforeTheOthersHaveCome) {
  Job job(that_waits(3), /*unfit=*/{0}, /*late=*/{2});
  EXPECT_FALSE(job.wait(50).has_ended());
  job.node_comes(2).wait(29);
  EXPECT_FALSE(job.has_ended()) << "it may pass a later check";
  EXPECT_TRUE(job.wait(2).end().bad_input);
}

// ---- between machines

ControllerOptions that_asks(int nodes, int spares) {
  ControllerOptions options = with_nodes(nodes, spares);
  options.network_max = absl::Seconds(5);
  return options;
}
const std::vector<std::string> kCutOff = {"network: 2 of 2 machines cannot be reached"};

TEST(Network, RolesAreGivenWhenItIsKnown) {
  Job job(that_asks(2, 1));
  EXPECT_EQ(job.wait(3).did(), "check network");
  job.node_is_checked(1, kCutOff).network_is_checked().wait(0.1);
  EXPECT_EQ(job.did(),
            "start 0.0, start 0.1, start 1.0 on 2, start 1.1 on 2, restart all in view 1");
}

TEST(Network, ItDoesNotHoldTheJobUp) {
  Job job(that_asks(2, 1));
  EXPECT_EQ(job.wait(4.9).did(), "check network");
  EXPECT_EQ(job.wait(0.2).did(),
            "start 0.0, start 0.1, start 1.0 on 1, start 1.1 on 1, restart all in view 1");
}

TEST(Network, WithTooFewOthersTheJobWaitsUntilTheCableIsIn) {
  Job job(that_asks(3, 0));
  job.wait(1).node_is_checked(1, kCutOff).network_is_checked().wait(20).did();
  EXPECT_THAT(job.said(), HasSubstr("2 of the 3 machines that the job needs are there and fit"));
  job.node_is_checked(1, {}).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("restart all in view 1"));
}

TEST(Network, AControllerThatTakesOverDoesNotAsk) {
  ControllerOptions options = that_asks(2, 0);
  options.takes_over = true;
  Job job(options);
  EXPECT_THAT(job.wait(3).did(), Not(HasSubstr("check network")));
}

// ---- later

TEST(UnfitNodes, ASpareThatTurnsBadIsPassedOver) {
  Job job(with_nodes(2, 2));
  job.begins().commits(1, 5).node_is_checked(2, kTooLittle).did();
  job.loses_node(1).wait(1);
  EXPECT_EQ(job.did(), "start 1.0 on 3, start 1.1 on 3, go on in view 2");
}

TEST(UnfitNodes, ASpareThatTurnsBadAndGoodAgainTakesOver) {
  Job job(with_nodes(2, 1));
  job.begins().commits(1, 5).node_is_checked(2, kTooLittle).node_is_checked(2, {"disk: worse"});
  EXPECT_THAT(job.said(), Not(HasSubstr("worse"))) << "it is told once";
  EXPECT_THAT(job.core().nodes().complaints(Node(2)), ElementsAre("disk: worse"));
  job.node_is_checked(2, {}).did();
  job.loses_node(1).wait(1);
  EXPECT_EQ(job.did(), "start 1.0 on 2, start 1.1 on 2, go on in view 2");
}

TEST(UnfitNodes, WhatItPlaysItGoesOnPlaying) {
  Job job(with_nodes(2, 1));
  job.begins().commits(1, 5).node_is_checked(1, kTooLittle).commits(6, 9).did();
  EXPECT_THAT(job.core().recoveries(), SizeIs(0));
  job.worker(2).dies().wait(1);
  EXPECT_EQ(job.did(), "start 1.0 on 2, go on in view 2") << "but nothing new";
}

TEST(UnfitNodes, ANodeThatComesBackIsJudgedAnew) {
  Job job(with_nodes(2, 1));
  job.begins().commits(1, 5).node_is_checked(2, kTooLittle);
  job.loses_node(2).node_comes(2).did();
  job.loses_node(1).wait(1);
  EXPECT_EQ(job.did(), "start 1.0 on 2, start 1.1 on 2, go on in view 2");
}

TEST(UnfitNodes, OneThatLeavesIsFreeToGo) {
  Job job(with_nodes(2, 1));
  job.begins().commits(1, 5).node_is_checked(2, kTooLittle).did();
  job.node_leaves(2).wait(0.1);
  EXPECT_EQ(job.did(), "dismiss 2");
}

// ---- incidents

// Both machines of a rack lose their power at once; the second one's line is noticed later.
TEST(Incidents, ARackThatIsNoticedMachineByMachineIsOneIncidentAndOneLoss) {
  ControllerOptions options = with_nodes(4, 2);
  options.losses_max = 1;
  Job job(options);
  job.begins().commits(1, 5).worker(3).stops();
  job.loses_node(2).wait(3).loses_node(3).wait(1);
  EXPECT_FALSE(job.has_ended());
  ASSERT_THAT(job.core().recoveries(), SizeIs(1));
  EXPECT_EQ(job.recovery().incident, 1);
  EXPECT_THAT(job.recovery().roles, ElementsAre("1.0", "1.1"));
  EXPECT_THAT(job.said(), AllOf(HasSubstr("incident 1: worker 1.0 is lost: node 2 is lost"),
                                HasSubstr("incident 1: worker 1.1 is lost: node 3 is lost"),
                                HasSubstr("incident 1: view 2: role 1.0 is lost")));
}

TEST(Incidents, LossesAfterTheJobWentOnAreTheNextOne) {
  ControllerOptions options = with_nodes(2, 0);
  options.incidents_after = 2 * kIncidentsOfController;
  Job job(options);
  job.begins().commits(1, 5).worker(3).dies().wait(1).commits(6, 8);
  EXPECT_EQ(job.recovery().incident, 20'001);
  job.worker(2).dies().wait(1);
  EXPECT_EQ(job.recovery().incident, 20'002);
  EXPECT_THAT(job.said(), HasSubstr("incident 20002: worker 1.0 is lost"));
}

TEST(Incidents, ARoleThatKeepsEndingIsManyLosses) {
  ControllerOptions options = with_nodes(2, 0);
  options.losses_max = 3;
  options.settles_after = absl::ZeroDuration();
  Job job(options);
  job.begins().commits(1, 5);
  for (int i = 0; i < 4; ++i) job.worker(2).dies().wait(1);
  ASSERT_TRUE(job.has_ended());
  EXPECT_THAT(job.end().reason, HasSubstr("4 losses without any progress"));
}

}  // namespace
}  // namespace evermoe
