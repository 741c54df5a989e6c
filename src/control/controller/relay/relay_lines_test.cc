// Lines of agents over a network, which break though both ends live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/relay/controller_relay_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TestRelay over_a_network() { return TestRelay({.return_max = 1}); }

// A step is committed every second, as rank 1 says.
void commits(TestRelay& relay, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    const Progress progress{View(1), Rank(1), verdict_commit(Step(step))};
    relay.wait(1).hears(2, MemberSaid{Rank(1), View(1), progress}, 2);
  }
}

void misses_rank_0(TestRelay& relay) {
  Trouble trouble;
  trouble.view = View(1);
  trouble.rank = Rank(1);
  trouble.accused = Rank(0);
  relay.hears(2, MemberSaid{Rank(1), View(1), trouble}, 2);
}

TEST(RelayLines, AnAgentMayComeBackOnANewLineAndNobodyIsLost) {
  for (const bool old_line_breaks_first : {true, false}) {
    TestRelay relay = over_a_network();
    relay.job_runs().falls_silent(1);
    if (old_line_breaks_first) relay.breaks(1).wait(0.5);
    EXPECT_EQ(relay.did(), "");
    EXPECT_EQ(relay.returns(0, 1, 5).did(), "cut 1, 5: welcome 0");
    relay.hears(5, WorkerStarted{Rank(0), View(1), 10}, 1);
    EXPECT_EQ(relay.ready(5).wait(3).did(), "");
  }
}

TEST(RelayLines, WhatEndedMeanwhileIsMissing) {
  TestRelay relay = over_a_network();
  relay.job_runs().breaks(1).returns(0, 1, 5).did();
  EXPECT_THAT(relay.ready(5).did(), HasSubstr("5: start rank 0"));
}

// It is given again, and no failure of the role is counted: none of its processes has ended.
TEST(RelayLines, AnOrderToStartThatWasLostWithTheLineIsRepeated) {
  TestRelay relay = over_a_network();
  relay.job_runs().ended(0, 1);
  EXPECT_THAT(relay.did(), HasSubstr("1: start rank 0"));
  relay.logged();
  relay.breaks(1).returns(0, 1, 5).did();
  EXPECT_EQ(relay.ready(5).did(), "5: start rank 0");
  EXPECT_THAT(relay.logged(), Not(HasSubstr("ended while its node was cut off")));
  relay.breaks(5).returns(0, 1, 6).hears(6, WorkerStarted{Rank(0), View(2), 10}, 3).did();
  EXPECT_EQ(relay.ready(6).did(), "") << "the agent says that it has got it";
}

TEST(RelayLines, WhoDoesNotComeBackInTimeToAJobThatStandsStillIsLost) {
  TestRelay relay = over_a_network();
  relay.run_attaches().job_runs().breaks(1).did();
  EXPECT_EQ(relay.wait(0.9).did(), "");
  EXPECT_THAT(relay.wait(0.2).did(), HasSubstr("run: node 0 (1001) lost: it has gone"));
  EXPECT_THAT(over_a_network().job_runs().breaks(1).agent(0, 5).did(), HasSubstr("cut 1"))
      << "and so is one whose node has another agent now";
}

// With loss on the way towards it alone, an agent hangs up that cannot call again.
TEST(RelayLines, WhoseLineBrokeIsNotLostWhileTheJobGoesOn) {
  TestRelay relay = over_a_network();
  relay.run_attaches().job_runs().falls_silent(1);
  commits(relay, 1, 2);
  relay.breaks(1);
  commits(relay, 3, 30);
  EXPECT_EQ(relay.did(), "");
  EXPECT_EQ(relay.wait(9.5).did(), "") << "the next step may take longer";
  EXPECT_THAT(relay.wait(1).did(), HasSubstr("run: node 0 (1001) lost: it has gone"));
}

TEST(RelayLines, WhoseLineBreaksWhenTheWorkIsDoneHasNoMoreThanItsTime) {
  TestRelay relay = over_a_network();
  relay.run_attaches().job_runs();
  commits(relay, 1, 3);
  for (const int r : {0, 1})
    relay.hears(r + 1, MemberSaid{Rank(r), View(1), Finished{Rank(r), Step(3)}}, r + 1);
  EXPECT_THAT(relay.did(), HasSubstr("1: release rank 0"));
  relay.breaks(1);
  EXPECT_EQ(relay.wait(0.9).did(), "");
  EXPECT_THAT(relay.wait(0.2).did(), HasSubstr("run: node 0 (1001) lost: it has gone"));
}

TEST(RelayLines, WhoseLineBrokeIsLostWhenOthersMissItThoughTheJobHasGoneOn) {
  TestRelay relay = over_a_network();
  relay.run_attaches().job_runs();
  commits(relay, 1, 1);
  relay.breaks(1);
  commits(relay, 2, 5);
  EXPECT_EQ(relay.did(), "");
  misses_rank_0(relay);
  EXPECT_THAT(relay.did(), HasSubstr("run: node 0 (1001) lost: it has gone"));
}

// In either order: its line breaks, and others miss its worker.
TEST(RelayLines, ANodeThatOthersMissTooIsLostAtOnce) {
  for (const bool line_breaks_first : {true, false}) {
    TestRelay relay = over_a_network();
    relay.run_attaches().job_runs().did();
    if (line_breaks_first) relay.breaks(1);
    misses_rank_0(relay);
    if (!line_breaks_first) relay.breaks(1);
    EXPECT_THAT(relay.did(), HasSubstr("run: node 0 (1001) lost: it has gone"));
  }
}

TEST(RelayLines, ASilentAgentIsNotLostWhileTheJobGoesOn) {
  TestRelay relay = over_a_network();
  relay.run_attaches().job_runs().falls_silent(1).did();
  commits(relay, 1, 30);
  EXPECT_EQ(relay.did(), "");
  relay.wait(11);
  EXPECT_THAT(relay.did(), HasSubstr("run: node 0 (1001) lost: no sign of life for 10s"));
}

TEST(RelayLines, WhenMostNodesAreSilentItIsTheControllerThatIsCutOff) {
  TestRelay relay = over_a_network();
  relay.run_attaches().job_runs().falls_silent(1).falls_silent(2);
  EXPECT_EQ(relay.wait(59).did(), "");
  EXPECT_THAT(relay.wait(2).did(), HasSubstr("lost: no sign of life"));
}

}  // namespace
}  // namespace evermoe
