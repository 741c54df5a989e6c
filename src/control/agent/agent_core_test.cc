// What the agent of a node decides.
#include "control/agent/agent_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "control/agent/agent_core_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

TEST(AgentCore, AttachesAndIsReadyAtOnceWhereNobodyLives) {
  TestAgent agent;
  EXPECT_EQ(agent.tick().did(), "attach, hello of 1");
  EXPECT_EQ(agent.welcome(0).did(), "ready");
}

TEST(AgentCore, StartsAWorkerAndHandsOnWhatItSays) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.start(5, 0).did(), "spawn 5, started 5");
  EXPECT_EQ(agent.attaches(5).did(), "welcome 0 to 5");
  EXPECT_EQ(agent.joins(5, 0).says(5, 0).did(), "joined 5, said 5");
  EXPECT_EQ(agent.order(5, 0).did(), "order to 5");
  EXPECT_EQ(agent.exits(5, {.code = 0}).did(), "ended 5 (ended before its work was done)");
}

TEST(AgentCore, AWorkerThatTheControllerDoesNotKnowYetIsNotHeard) {
  TestAgent agent = ready_agent();
  agent.start(5, 0).attaches(5).did();
  EXPECT_EQ(agent.says(5, 0).lives(5, 0).wait(1).did(), "");
  EXPECT_EQ(agent.joins(5, 0).wait(1).did(), "joined 5") << "what it said before counts no more";
}

TEST(AgentCore, OrdersGoToTheProcessThatIsMeantOrToNobody) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  EXPECT_EQ(agent.order(4, 0).order(6, 0).did(), "");
  EXPECT_EQ(agent.line_breaks(5).order(5, 0).did(), "") << "it is about to end";
}

TEST(AgentCore, AProcessThatCannotBeStartedHasEnded) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.cannot_spawn().start(5, 0).did(),
            "spawn 5, ended 5 (cannot be started: no memory)");
}

// ---- signs of life

TEST(AgentCore, WhoHasGivenASignIsToldOfWithTheAgentsOwn) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).runs(7, 2).wait(0.5).did();
  EXPECT_EQ(agent.lives(5, 0).lives(6, 1).lives(7, 2).lives(5, 0, View(2)).did(), "");
  EXPECT_EQ(agent.wait(0.5).did(), "alive 5 in 2, 6 in 1, 7 in 1") << "one message of all";
  EXPECT_EQ(agent.wait(2).did(), "") << "nobody is said to live who has said nothing since";
  EXPECT_EQ(agent.lives(5, 0).lives(7, 2).wait(0.5).did(), "alive 5 in 1, 7 in 1");
}

TEST(AgentCore, NobodyIsToldToLiveWhoHasEndedOrIsReplaced) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).runs(7, 2).wait(0.5).did();
  agent.lives(5, 0).lives(6, 1).lives(7, 2).start(8, 0).killed(6).did();
  EXPECT_EQ(agent.wait(0.5).did(), "alive 7 in 1");
  EXPECT_EQ(agent.lives(5, 0).wait(0.5).did(), "") << "it has not ended yet";
}

TEST(AgentCore, ASignOfLifeIsForTheControllerThatWasThere) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).lives(5, 0).broken().lives(5, 0).wait(0.06).welcome(1).joins(5, 0).did();
  EXPECT_EQ(agent.wait(1).did(), "");
  EXPECT_EQ(agent.lives(5, 0).wait(0.5).did(), "alive 5 in 1");
}

// It is the whole job's: the rest of them would say the same once more.
TEST(AgentCore, TheFirstWorkerTellsOfACommitAndFromTheOthersItIsASignOfLife) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).wait(0.5).did();
  EXPECT_EQ(agent.commits(6, 1, Commit(4)).commits(5, 0, Commit(4)).did(), "said 6");
  EXPECT_EQ(agent.commits(5, 0, Commit(5)).commits(6, 1, Commit(5)).did(), "said 5");
  EXPECT_EQ(agent.wait(0.5).did(), "alive 5 in 0, 6 in 0");
  EXPECT_EQ(agent.commits(6, 1, Commit(2), View(3)).did(), "said 6") << "all have gone back";
  EXPECT_EQ(agent.commits(5, 0, Commit(2), View(3)).did(), "");
}

TEST(AgentCore, EveryControllerHearsOfACommitAnew) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).commits(5, 0, Commit(4)).broken().wait(0.06).welcome(1);
  agent.joins(5, 0).joins(6, 1).did();
  EXPECT_EQ(agent.commits(6, 1, Commit(4)).did(), "said 6");
}

// The controller does not hear it, so another one has to say so.
TEST(AgentCore, WhatAReplacedWorkerTellsOfACommitDoesNotCount) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).start(8, 0).did();
  EXPECT_EQ(agent.commits(5, 0, Commit(4)).commits(6, 1, Commit(4)).did(), "said 5, said 6");
}

// ---- health

TEST(AgentCore, IsNotReadyBeforeItsMachineIsMeasured) {
  TestAgent agent(/*waits_for_health=*/true);
  agent.tick().welcome(0).did();
  EXPECT_EQ(agent.wait(4).did(), "") << "the disk is busy";
  EXPECT_EQ(agent.is_checked({"memory"}).did(), "ready but memory");
  EXPECT_EQ(agent.is_checked({"memory"}).did(), "");
  EXPECT_EQ(agent.is_checked({}).did(), "ready");
}

TEST(AgentCore, DoesNotWaitForEverToSayThatItIsNotMeasuredYet) {
  TestAgent agent(/*waits_for_health=*/true);
  agent.tick().welcome(0).did();
  EXPECT_EQ(agent.wait(5).did(), "ready but health: not measured yet");
  EXPECT_EQ(agent.is_checked({}).did(), "ready");
}

TEST(AgentCore, TellsTheNextControllerWhatIsKnownOfItsMachine) {
  TestAgent agent(/*waits_for_health=*/true);
  agent.is_checked({"disk"}).tick().did();
  EXPECT_EQ(agent.welcome(0).did(), "ready but disk");
  agent.broken().wait(1).did();
  EXPECT_EQ(agent.is_checked({}).did(), "") << "nobody hears it";
  EXPECT_EQ(agent.welcome(1).did(), "ready");
}

// ---- one process per role

TEST(AgentCore, TheNextProcessOfARoleWaitsUntilTheFormerHasEnded) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  EXPECT_EQ(agent.start(6, 0).did(), "kill 5");
  EXPECT_EQ(agent.says(5, 0).did(), "said 5") << "it still lives; the controller knows better";
  EXPECT_EQ(agent.killed(5).did(), "spawn 6, started 6")
      << "and nobody is told of an end that was ordered";
}

TEST(AgentCore, OnlyTheLastOneWaits) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).start(6, 0).start(7, 0).did();
  EXPECT_EQ(agent.killed(5).did(), "spawn 7, started 7");
}

TEST(AgentCore, WhoWaitsToBeStartedCanBeKilled) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).start(6, 0).told_to_kill(6, 0).did();
  EXPECT_EQ(agent.killed(5).did(), "");
}

TEST(AgentCore, AKillIsOfOneProcessNotOfARole) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  EXPECT_EQ(agent.told_to_kill(4, 0).did(), "");
  EXPECT_EQ(agent.told_to_kill(5, 0).did(), "kill 5");
  EXPECT_EQ(agent.killed(5).did(), "ended 5 (killed by signal 9 (Killed))");
}

TEST(AgentCore, AStrangerIsCutOff) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  EXPECT_EQ(agent.from_worker(9, WorkerHello{99}).did(), "cut 9");
  EXPECT_EQ(agent.from_worker(9, WorkerHello{5}).did(), "cut 9") << "process 5 has its line";
  EXPECT_EQ(agent.from_worker(9, Beat{}).did(), "cut 9") << "who does not say who it is";
}

TEST(AgentCore, AWorkerThatSpeaksForAnotherRoleIsEnded) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  EXPECT_EQ(agent.says(5, 1).did(), "kill 5");
  EXPECT_EQ(agent.from_worker(5, Drain{}).did(), "kill 5");
}

// ---- controllers come and go

TEST(AgentCore, WorkersGoOnWithoutAControllerAndRegisterWithTheNext) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).did();
  EXPECT_EQ(agent.broken().says(5, 0).did(), "") << "there is nobody to tell";
  EXPECT_EQ(agent.wait(0.06).did(), "attach, hello of 1");
  EXPECT_EQ(agent.welcome(1).did(), "started 5, welcome 1 to 5, started 6, welcome 1 to 6");
  EXPECT_EQ(agent.joins(5, 0).did(), "joined 5");
  EXPECT_EQ(agent.joins(6, 1).did(), "joined 6, ready") << "not before all have registered";
}

TEST(AgentCore, WhoDoesNotRegisterInTimeIsNotWaitedFor) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).broken().wait(0.06).welcome(1).joins(5, 0).did();
  EXPECT_EQ(agent.wait(0.9).did(), "");
  EXPECT_EQ(agent.wait(0.2).did(), "ready");
  EXPECT_EQ(agent.joins(6, 1).did(), "joined 6") << "it may still come";
}

TEST(AgentCore, WhoHasNotAttachedYetIsNotWaitedFor) {
  TestAgent agent = ready_agent();
  agent.start(5, 0).broken().wait(0.06).did();
  EXPECT_EQ(agent.welcome(1).did(), "started 5, ready");
}

TEST(AgentCore, AnEndWhileTheControllerIsAwayIsSeenByWhatIsMissing) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).broken().killed(5).wait(0.06).did();
  EXPECT_EQ(agent.welcome(1).joins(6, 1).did(), "started 6, welcome 1 to 6, joined 6, ready");
}

// It may have taken the node for lost meanwhile, and others may play its roles: then it says so.
TEST(AgentCore, AControllerMetAgainHearsOfAllOfThemAnew) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).broken().wait(0.06).did();
  EXPECT_EQ(agent.welcome(0).did(), "started 5, welcome 0 to 5, started 6, welcome 0 to 6");
  EXPECT_EQ(agent.joins(5, 0).joins(6, 1).did(), "joined 5, joined 6, ready");
  EXPECT_EQ(agent.told_to_kill(5, 0).did(), "kill 5") << "if another process plays its role";
}

// The controller, which hears of it, does not take the role for lost.
TEST(AgentCore, WhoWaitsForTheFormerProcessToEndIsShownToo) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).start(6, 0).broken().wait(0.06).did();
  EXPECT_EQ(agent.welcome(0).did(), "started 6, ready") << "nobody wants to hear of 5 any more";
  EXPECT_EQ(agent.killed(5).did(), "spawn 6, started 6");
}

TEST(AgentCore, AttemptsGoOnUntilOneSucceeds) {
  TestAgent agent;
  agent.tick().did();
  EXPECT_EQ(agent.broken().wait(0.06).broken().wait(0.06).did(),
            "attach, hello of 1, attach, hello of 1");
}

TEST(AgentCore, ASilentControllerIsLeft) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.wait(9.9).did(), "");
  EXPECT_EQ(agent.wait(0.2).did(), "attach, hello of 1");
}

TEST(AgentCore, OneThatStoodStillItselfTakesNobodyForSilent) {
  TestAgent agent = ready_agent();
  agent.wait(3);
  EXPECT_EQ(agent.stand_still(60).wait(6).did(), "");
  EXPECT_EQ(agent.wait(1.2).did(), "attach, hello of 1");
}

TEST(AgentCore, WithoutAControllerForTooLongAllEndsHere) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).broken().did();
  for (int i = 0; i < 29; ++i) agent.wait(10).broken();
  agent.did();
  EXPECT_THAT(agent.wait(11).did(), HasSubstr("kill 5"));
  EXPECT_EQ(agent.killed(5).did(), "fail: no controller for 5m");
}

// ---- the end

TEST(AgentCore, QuitsWhenTheLastWorkerHasEnded) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).start(7, 1).did();
  EXPECT_EQ(agent.from_controller(EndJob{true, false, "finished"}).did(), "kill 5, kill 6");
  EXPECT_EQ(agent.killed(6).did(), "") << "and nobody takes its place";
  EXPECT_EQ(agent.killed(5).did(), "quit: finished");
  EXPECT_EQ(agent.start(8, 0).broken().wait(20).did(), "");
}

TEST(AgentCore, AnAgentWithoutWorkersQuitsAtOnce) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.from_controller(EndJob{false, false, "refused"}).did(), "quit: refused");
}

TEST(AgentCore, WorkersAreAskedToDrainOnce) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).start(6, 1).did();
  EXPECT_EQ(agent.from_controller(Drain{}).did(), "ask to drain 5")
      << "a program that has just begun does not listen yet";
  EXPECT_EQ(agent.attaches(6).did(), "ask to drain 6, welcome 0 to 6");
  EXPECT_EQ(agent.from_controller(Drain{}).did(), "") << "it has been asked";
}

TEST(AgentCore, LastWordsAreToldOfWhoFailedByItself) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).runs(6, 1).runs(7, 2).did();
  EXPECT_EQ(agent.exits(5, {.code = 1}, {"the disk is full"}).did(),
            "ended 5 (exit code 1: the disk is full), words");
  EXPECT_EQ(agent.exits(6, {.signal = SIGKILL}, {"step 7"}).did(),
            "ended 6 (killed by signal 9 (Killed))");
  EXPECT_EQ(agent.exits(7, {.code = 0}, {"done"}).did(),
            "ended 7 (ended before its work was done: done)");
}

// ---- terms

// It woke up after its run had been replaced.
TEST(AgentCore, AControllerOfAnOlderRunIsNotListenedTo) {
  TestAgent agent = ready_agent();
  agent.broken().wait(0.1).welcome(0, 3).did();
  agent.runs(5, 0).did();
  agent.broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome(1, 2).start(6, 0).order(5, 0).did(), "") << "it stays away from it";
  agent.wait(0.1).did();
  EXPECT_EQ(agent.welcome(1, 3).joins(5, 0).did(), "started 5, welcome 1 to 5, joined 5, ready");
}

// They would save in the name of a run that is over.
TEST(AgentCore, WorkersOfAFormerRunAreEnded) {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome(7, 2).did(), "kill 5, ready");
}

// ---- hosts of one job, one after the other

TEST(AgentCore, WorkersGoOnUnderTheNextHostOfTheirJob) {
  TestAgent agent = ready_agent();
  agent.broken().wait(0.1).welcome_of_host(0, 2).did();
  agent.runs(5, 0).broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome_of_host(1000, 3).joins(5, 0).did(),
            "started 5, welcome 1000 to 5, joined 5, ready");
  agent.broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome_of_host(7, 4, "another").did(), "kill 5, ready");
}

// Two hosts live for a while, and the line leads to one or the other.
TEST(AgentCore, WhoHasMetTheNextHostDoesNotListenToTheFormer) {
  TestAgent agent = ready_agent();
  agent.broken().wait(0.1).welcome_of_host(1000, 3).did();
  agent.runs(5, 0).did();
  agent.broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome_of_host(4, 2).order(5, 0).did(), "") << "it stays away from it";
  EXPECT_EQ(agent.wait(0.1).did(), "attach, hello of 1");
  EXPECT_EQ(agent.welcome_of_host(1000, 3).joins(5, 0).did(),
            "started 5, welcome 1000 to 5, joined 5, ready");
}

TEST(AgentCore, NorToAFormerControllerOfTheSameHost) {
  TestAgent agent = ready_agent();
  agent.broken().wait(0.1).welcome_of_host(1001, 3).did();
  agent.broken().wait(0.1).did();
  EXPECT_EQ(agent.welcome_of_host(1000, 3).did(), "");
}

}  // namespace
}  // namespace evermoe
