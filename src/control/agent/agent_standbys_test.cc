#include "control/agent/agent_standbys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/agent/agent_core_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(AgentStandbys, BeginUntilThereAreEnough) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.keeps_standbys(2).did(), "2 warming, 0 warm, spawn standby 1, spawn standby 2");
  EXPECT_EQ(agent.keeps_standbys(2).did(), "2 warming, 0 warm");
  EXPECT_EQ(agent.standby_warms_up(2).did(), "1 warming, 1 warm");
  EXPECT_EQ(agent.keeps_standbys(3).did(), "2 warming, 1 warm, spawn standby 3");
}

TEST(AgentStandbys, WarmUpForTheRolesThatTheyAreStartedFor) {
  TestAgent agent = ready_agent();
  EXPECT_THAT(agent.keeps_standbys(1).did(), HasSubstr("spawn standby 1"));
  EXPECT_THAT(agent.keeps_standbys(2, {Rank(2), Rank(3)}).did(),
              HasSubstr("spawn standby 2 for 2 and 3"));
}

TEST(AgentStandbys, AWarmOneTakesTheRoleThatIsStartedHere) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(1).did();
  EXPECT_EQ(agent.start(5, 0).did(), "spawn 5, started 5") << "it is not warm yet";
  agent.standby_warms_up(1).did();
  EXPECT_EQ(agent.start(6, 1).did(), "standby 1 is 6, started 6, 0 warming, 0 warm");
  // It ends the standby's line and opens a worker's.
  EXPECT_EQ(agent.line_breaks(101).did(), "");
  EXPECT_EQ(agent.from_worker(300, WorkerHello{101}).did(), "welcome 0 to 300");
  EXPECT_EQ(agent.killed(6).did(), "ended 6 (killed by signal 9 (Killed))");
  EXPECT_EQ(agent.start(7, 1).did(), "spawn 7, started 7") << "there is none any more";
}

TEST(AgentStandbys, TheOneThatIsWarmForLongestComesFirst) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(2).standby_warms_up(2).standby_warms_up(1).did();
  EXPECT_THAT(agent.start(5, 0).did(), HasSubstr("standby 2 is 5"));
  EXPECT_THAT(agent.start(6, 1).did(), HasSubstr("standby 1 is 6"));
}

TEST(AgentStandbys, OneWaitsForTheRoleThatMovesHere) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(2).standby_warms_up(1).standby_warms_up(2).did();
  EXPECT_EQ(agent.wants_joiner(3).did(), "101 waits for 3");
  EXPECT_EQ(agent.from_worker(101, JoinerReady{{}, Rank(3), {"there", View(1)}}).did(),
            "joiner of 3 at there");
  EXPECT_THAT(agent.start(5, 0).did(), HasSubstr("standby 2 is 5")) << "of another role";
  EXPECT_THAT(agent.start(6, 3).did(), HasSubstr("standby 1 is 6"));
}

TEST(AgentStandbys, EachWaitsForOneRole) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(2).standby_warms_up(1).standby_warms_up(2).did();
  EXPECT_EQ(agent.wants_joiner(3).wants_joiner(2).did(), "101 waits for 3, 102 waits for 2");
  EXPECT_EQ(agent.wants_joiner(0).did(), "") << "nobody is left";
  EXPECT_EQ(agent.wants_joiner(3).did(), "101 does not wait for 3, 101 waits for 3");
  EXPECT_EQ(agent.wants_joiner(3, /*is_off=*/true).did(), "101 does not wait for 3");
  EXPECT_THAT(agent.start(5, 2).did(), HasSubstr("standby 2 is 5"));
  EXPECT_EQ(agent.wants_joiner(3).did(), "101 waits for 3");
  EXPECT_THAT(agent.start(6, 0).did(), HasSubstr("standby 1 is 6")) << "sooner than a new process";
}

TEST(AgentStandbys, ANewControllerKnowsOfNoRoleThatIsWaitedFor) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(1).standby_warms_up(1).wants_joiner(3).did();
  agent.broken().wait(0.1).did();
  EXPECT_THAT(agent.welcome(1).did(), HasSubstr("101 does not wait for 3"));
}

TEST(AgentStandbys, ItWaitsForTheFormerProcessOfTheRoleAsAnyOther) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).keeps_standbys(1).standby_warms_up(1).did();
  EXPECT_EQ(agent.start(6, 0).did(), "kill 5");
  EXPECT_EQ(agent.killed(5).did(), "standby 1 is 6, started 6, 0 warming, 0 warm");
}

// ---- a worker whose role is another process's

TEST(AgentStandbys, AWorkerBecomesOneAndTakesARoleAgain) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  EXPECT_EQ(agent.told_to_relieve(5, 0).did(), "relieve 5, 1 warming, 0 warm");
  EXPECT_EQ(agent.told_to_kill(5, 0).did(), "")
      << "something that it had said was still on its way";
  EXPECT_EQ(agent.keeps_standbys(1).did(), "1 warming, 0 warm") << "it is the one";
  // Its new line may be there before the old one has broken.
  EXPECT_EQ(agent.from_worker(200, WorkerHello{5}).did(),
            "5 is standby 1, ended 5 (its role is another process's)");
  EXPECT_EQ(agent.line_breaks(5).did(), "");
  EXPECT_EQ(agent.from_worker(200, StandbyWarm{}).did(), "0 warming, 1 warm");
  EXPECT_EQ(agent.wants_joiner(3).did(), "200 waits for 3");
  EXPECT_EQ(agent.start(6, 3).did(), "standby 1 is 6, started 6, 0 warming, 0 warm");
}

TEST(AgentStandbys, TheControllerHearsWhatTheyAreWarmFor) {
  TestAgent agent = ready_agent();
  std::vector<std::vector<Rank>> warm_for;
  agent.on_told([&](const ControlMessage& message) {
    if (const auto* const kept = std::get_if<StandbysKept>(&message)) warm_for = kept->warm_for;
  });
  const auto comes_back = [&](int64_t start, int rank, int standby) {
    agent.told_to_relieve(start, rank);
    agent.from_worker(200 + standby, WorkerHello{static_cast<pid_t>(start)});
    agent.from_worker(200 + standby, StandbyWarm{});
  };
  using Roles = std::vector<Rank>;
  agent.runs(5, 0);
  comes_back(5, 0, 1);
  EXPECT_THAT(warm_for, testing::ElementsAre(Roles{Rank(0)})) << "what it has played";
  agent.keeps_standbys(2).standby_warms_up(2);
  EXPECT_THAT(warm_for, testing::UnorderedElementsAre(Roles{Rank(0)}, Roles{})) << "every role";
  agent.start(6, 3);
  EXPECT_THAT(warm_for, testing::ElementsAre(Roles{})) << "the other one plays now";
}

TEST(AgentStandbys, AWorkerThatDoesNotForgetItsRoleInTimeEnds) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).told_to_relieve(5, 0).did();
  EXPECT_THAT(agent.lives(5, 0).wait(9).did(), Not(HasSubstr("kill")));
  std::string did;
  for (int i = 0; i < 5; ++i) did += agent.from_controller(Beat{}).wait(5).did();
  EXPECT_THAT(did, HasSubstr("kill 5"));
  EXPECT_EQ(agent.killed(5).did(),
            "ended 5 (killed by signal 9 (Killed)), 0 warming, 0 warm: it ended when its role had "
            "moved away");
}

TEST(AgentStandbys, WhoCannotBeToldIsKilled) {
  TestAgent agent = ready_agent();
  agent.start(5, 0).did();
  EXPECT_EQ(agent.told_to_relieve(5, 0).did(), "kill 5, 0 warming, 0 warm") << "it has no line yet";
  EXPECT_EQ(agent.told_to_relieve(9, 0).did(), "0 warming, 0 warm") << "it is gone";
}

TEST(AgentStandbys, TheNextProcessOfTheRoleWaitsUntilItIsForgotten) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).told_to_relieve(5, 0).did();
  EXPECT_EQ(agent.start(6, 0).did(), "kill 5");
  EXPECT_EQ(agent.from_worker(200, WorkerHello{5}).did(), "5 is standby 1, spawn 6, started 6");
}

TEST(AgentStandbys, AnotherControllerHearsOfItAsOfAStandby) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).told_to_relieve(5, 0).did();
  agent.broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome(1).did(), "ready") << "it plays nothing";
  EXPECT_EQ(agent.from_worker(200, WorkerHello{5}).did(), "5 is standby 1");
  EXPECT_EQ(agent.from_worker(200, StandbyWarm{}).did(), "0 warming, 1 warm");
}

// ----

TEST(AgentStandbys, WhyOneHasEndedIsTold) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(1).did();
  EXPECT_EQ(agent.exits(-1, {.code = 2}, {"no GPU is left"}).did(),
            "0 warming, 0 warm: exit code 2: no GPU is left");
  agent.cannot_spawn();
  EXPECT_EQ(agent.keeps_standbys(1).did(),
            "1 warming, 0 warm, spawn standby 2, 0 warming, 0 warm: cannot be started: no memory");
}

TEST(AgentStandbys, WhoeverSaysWhatMakesNoSenseEnds) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(1).standby_warms_up(1).did();
  EXPECT_EQ(agent.from_worker(101, MemberAlive{Rank(0), View(1), View(1)}).did(), "kill standby 1");
  EXPECT_EQ(agent.line_breaks(101).did(), "kill standby 1");
  EXPECT_EQ(agent.start(5, 0).did(), "spawn 5, started 5") << "nobody could tell it";
}

TEST(AgentStandbys, TheNextControllerHearsOfThem) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(2).standby_warms_up(1).did();
  agent.broken().wait(0.1).did();
  std::optional<StandbysKept> told;
  agent.on_told([&](const ControlMessage& message) {
    if (const auto* const ready = std::get_if<AgentReady>(&message)) told = ready->standbys;
  });
  agent.welcome(1);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->warm, 1);
  EXPECT_EQ(told->warming, 1);
}

TEST(AgentStandbys, EndWithTheJobAndWithAnotherOne) {
  TestAgent agent = ready_agent();
  agent.keeps_standbys(1).did();
  EXPECT_EQ(agent.from_controller(EndJob{.ok = true, .reason = "finished"}).did(),
            "kill standby 1");
  EXPECT_EQ(agent.killed(-1).did(), "quit: finished");
  TestAgent other = ready_agent();
  other.keeps_standbys(1).did();
  other.broken().wait(0.1).did();
  EXPECT_THAT(other.welcome(0, /*term=*/2).did(), HasSubstr("kill standby 1"));
}

}  // namespace
}  // namespace evermoe
