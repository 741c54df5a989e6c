// What stands between the streams of a controller and its core.
#include "control/controller/relay/controller_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// ---- agents

TEST(ControllerRelay, TheJobBeginsWhenTheNodesAreReady) {
  TestRelay relay;
  EXPECT_EQ(relay.agent(0).agent(1).did(), "1: welcome 0, 2: welcome 0");
  EXPECT_EQ(relay.ready(1).did(), "");
  EXPECT_EQ(relay.ready(2).did(), "1: start rank 0, 2: start rank 1");
  EXPECT_EQ(relay.started(0, 1).joined(0, 1).started(1, 2).joined(1, 2).did(),
            "1: stop rank 0, 2: stop rank 1");
  EXPECT_EQ(relay.reports(0, 1, View(1)).reports(1, 2, View(1)).did(),
            "1: plan rank 0, 2: plan rank 1");
}

TEST(ControllerRelay, ASpareWaitsForTheOthers) {
  TestRelay relay;
  EXPECT_EQ(relay.agent(2).ready(3).wait(1.9).did(), "3: welcome 0");
  EXPECT_EQ(relay.wait(0.2).did(), "3: start rank 0, 3: start rank 1") << "but not for ever";
}

TEST(ControllerRelay, ASpareIsThereAtOnceWhenAllHaveCome) {
  TestRelay relay;
  relay.agent(2).ready(3).agent(0).ready(1).agent(1).ready(2).did();
  EXPECT_EQ(relay.breaks(1).did(), "3: start rank 0") << "takes over what node 0 was about to play";
}

TEST(ControllerRelay, ANodeThatIsNotFitIsNamedWhateverItsLineDoes) {
  TestRelay relay({.return_max = 1});
  const AgentReady unfit{"", {}, {"memory: 1 MB"}};
  relay.job_runs().agent(2).hears(3, unfit);
  EXPECT_THAT(relay.logged(), HasSubstr("node 2 is left out: its machine is not fit to play a "
                                        "role: memory: 1 MB"));
  relay.hears(20, OperatorHello{});
  EXPECT_EQ(relay.status().nodes[2].state, NodeStatus::State::kUnfit);
  EXPECT_THAT(relay.status().nodes[2].complaints, testing::ElementsAre("memory: 1 MB"));
  relay.breaks(3).returns(2, 3, 30).hears(30, unfit);
  EXPECT_THAT(relay.logged(), testing::Not(HasSubstr("fit")));
  relay.hears(30, AgentReady{});
  EXPECT_THAT(relay.logged(), HasSubstr("node 2 is fit again"));
  relay.hears(20, OperatorHello{});
  EXPECT_EQ(relay.status().nodes[2].state, NodeStatus::State::kSpare);
}

TEST(ControllerRelay, AnAgentThatIsBackBeforeItsLineBreaksIsLostAndNewAgain) {
  TestRelay relay;
  relay.run_attaches().job_runs();
  relay.returns(0, 1, 5);
  const std::string did = relay.did();
  EXPECT_THAT(did, HasSubstr("cut 1"));
  EXPECT_THAT(did, HasSubstr("run: node 0 (1001) lost: it attaches anew"));
  EXPECT_THAT(did, HasSubstr("5: welcome 0"));
  EXPECT_EQ(relay.breaks(1).did(), "") << "that is known";
}

// A second process for a node whose agent lives: the first one stays, the other one is told why.
TEST(ControllerRelay, ANodeWhoseAgentLivesIsNotTakenByAnother) {
  TestRelay relay;
  relay.run_attaches().job_runs().did();
  relay.agent(0, 5);
  EXPECT_EQ(relay.did(), "") << "it waits";
  const std::string did = relay.wait(3).did();
  EXPECT_THAT(did, HasSubstr("5: end: node 0 of this job runs already: process 1001 on "));
  EXPECT_THAT(did, Not(HasSubstr("lost")));
  EXPECT_THAT(did, Not(HasSubstr("cut")));
}

TEST(ControllerRelay, ANodeWhoseAgentIsSilentIsTakenByAnother) {
  TestRelay relay;
  relay.run_attaches().job_runs().falls_silent(1).did();
  relay.agent(0, 5);
  EXPECT_EQ(relay.wait(7).did(), "");
  const std::string did = relay.wait(2).did();
  EXPECT_THAT(did, HasSubstr("run: node 0 (1001) lost: it attaches anew"));
  EXPECT_THAT(did, HasSubstr("5: welcome 0"));
}

TEST(ControllerRelay, ANodeWhoseAgentEndsMeanwhileIsTakenByAnotherAtOnce) {
  TestRelay relay;
  relay.run_attaches().job_runs().did();
  relay.agent(0, 5);
  const std::string did = relay.breaks(1).did();
  EXPECT_THAT(did, HasSubstr("run: node 0 (1001) lost: it has gone"));
  EXPECT_THAT(did, HasSubstr("5: welcome 0"));
}

TEST(ControllerRelay, ASilentAgentIsLost) {
  TestRelay relay;
  relay.run_attaches().job_runs().falls_silent(1).wait(9).did();
  const std::string did = relay.wait(1.5).did();
  EXPECT_THAT(did, HasSubstr("cut 1"));
  EXPECT_THAT(did, HasSubstr("run: node 0 (1001) lost: no sign of life for 10s"));
}

TEST(ControllerRelay, AControllerThatStoodStillTakesNobodyForSilent) {
  TestRelay relay;
  relay.job_runs();
  EXPECT_EQ(relay.stand_still(60).wait(4).did(), "");
}

// Its line may break before it has answered.
TEST(ControllerRelay, ARunIsAskedWhetherTheJobIsStillItsUntilItSaysSo) {
  TestRelay relay({.hosts_may_change = true});
  relay.job_runs().ended(0, 1);
  EXPECT_THAT(relay.did(), Not(HasSubstr("start"))) << "no run is there to ask";
  EXPECT_THAT(relay.run_attaches().did(), HasSubstr("run: is it ours after 1 losses?"));
  relay.breaks(kRunStream);
  EXPECT_THAT(relay.run_attaches().did(), HasSubstr("run: is it ours after 1 losses?"));
  EXPECT_THAT(relay.hears(kRunStream, TermHeld{1}).did(), HasSubstr("start rank 0"));
  relay.breaks(kRunStream);
  EXPECT_THAT(relay.run_attaches().did(), Not(HasSubstr("ours")));
  EXPECT_THAT(relay.hears(1, TermHeld{1}).did(), HasSubstr("cut 1")) << "that is not for agents";
}

TEST(ControllerRelay, AnAgentOfANodeThatIsNoneIsCutOff) {
  TestRelay relay;
  EXPECT_EQ(relay.agent(3).did(), "cut 4");
}

TEST(ControllerRelay, WhoSpeaksOutOfTurnIsCutOff) {
  TestRelay relay;
  EXPECT_EQ(relay.hears(7, AgentReady{}).did(), "cut 7") << "no hello";
  EXPECT_EQ(relay.hears(8, MemberAlive{Rank(0), View(1), View(1)}, 1).did(), "cut 8");
  EXPECT_EQ(relay.hears(9, Welcome{3}).did(), "cut 9") << "nobody says that to a controller";
  EXPECT_EQ(relay.run_attaches().hears(kRunStream, RunHello{}).did(),
            absl::StrCat("run: welcome 0, cut ", kRunStream));
  EXPECT_EQ(relay.agent(0).hears(1, WorkerStarted{Rank(2), View(1), 1}, 1).did(),
            "1: welcome 0, cut 1")
      << "no such rank";
  EXPECT_EQ(relay.agent(1).hears(2, Drain{}).did(), "2: welcome 0")
      << "a signal to any node drains the job";
}

TEST(ControllerRelay, AnAgentThatTellsNonsenseOfItsWorkersIsCutOff) {
  const AliveWorker sound{1, {Rank(0), View(1), View(1)}};
  const AliveWorker foreign{1, {Rank(2), View(1), View(1)}};
  EXPECT_EQ(TestRelay().job_runs().hears(1, Beat{.alive = {sound}}).did(), "");
  EXPECT_THAT(TestRelay().job_runs().hears(1, Beat{.alive = {sound, foreign}}).did(),
              HasSubstr("cut 1"))
      << "no such rank";
  EXPECT_THAT(TestRelay().job_runs().hears(1, Beat{.alive = {sound, sound, sound}}).did(),
              HasSubstr("cut 1"))
      << "more than there are roles";
  EXPECT_EQ(TestRelay().run_attaches().hears(kRunStream, Beat{.alive = {sound}}).did(),
            absl::StrCat("run: welcome 0, cut ", kRunStream))
      << "it is no agent";
  EXPECT_THAT(TestRelay().job_runs().hears(1, sound.sign, sound.start).did(), HasSubstr("cut 1"))
      << "signs of life come with the agent's own";
}

TEST(ControllerRelay, AMemberSpeaksOfItselfAlone) {
  TestRelay relay;
  relay.job_runs();
  Report report;
  report.view = View(2);
  report.rank = Rank(1);
  EXPECT_THAT(relay.hears(1, MemberSaid{Rank(0), View(1), report}, 1).did(), HasSubstr("cut 1"));
}

TEST(ControllerRelay, WhoAccusesNobodyWhoIsThereIsCutOff) {
  TestRelay relay;
  relay.job_runs();
  Trouble trouble;
  trouble.view = View(1);
  trouble.rank = Rank(1);
  trouble.accused = Rank(2);
  EXPECT_THAT(relay.hears(2, MemberSaid{Rank(1), View(1), trouble}, 2).did(), HasSubstr("cut 2"));
}

// ---- processes of roles

TEST(ControllerRelay, TheNextProcessHasALargerNumberAndTheFormerIsToldToEnd) {
  TestRelay relay;
  relay.job_runs();
  EXPECT_THAT(relay.ended(0, 1).did(), HasSubstr("1: start rank 0"));
  relay.started(0, 3).did();
  EXPECT_EQ(relay.alive(0, 1).did(), "1: kill 1 of rank 0");
  EXPECT_EQ(relay.reports(0, 1, View(2)).did(), "1: kill 1 of rank 0") << "and is not heard";
}

TEST(ControllerRelay, AWorkerOfWhichItsAgentTellsNothingHangs) {
  TestRelay relay;
  relay.run_attaches().job_runs().wait(2).hangs(1).did();
  EXPECT_EQ(relay.wait(4.9).did(), "") << "its agent is heard all the time";
  EXPECT_THAT(relay.wait(0.6).did(), HasSubstr("2: kill 2 of rank 1"));
  EXPECT_EQ(relay.recovery().failed, absl::Seconds(1.5))
      << "what was told after two seconds may have been so half a second before";
}

TEST(ControllerRelay, SignsThatComeWithALateOneOfTheirAgentMayBeOlder) {
  TestRelay relay;
  relay.run_attaches().job_runs().wait(2).hangs(1);
  relay.hears(2, Beat{.late = absl::Seconds(1), .alive = {{2, {Rank(1), View(1), View(1)}}}});
  EXPECT_THAT(relay.wait(20).did(), HasSubstr("2: kill 2 of rank 1"));
  EXPECT_EQ(relay.recovery().failed, absl::Seconds(1.5)) << "that it lived later is known already";
  TestRelay late;
  late.run_attaches().job_runs().hangs(1).wait(3);
  late.hears(2, Beat{.late = absl::Seconds(1), .alive = {{2, {Rank(1), View(1), View(1)}}}});
  EXPECT_THAT(late.wait(20).did(), HasSubstr("2: kill 2 of rank 1"));
  EXPECT_EQ(late.recovery().failed, absl::Seconds(1.5));
}

TEST(ControllerRelay, SignsOfWorkersAreHeardBeforeTheirAgentIsReady) {
  TestRelay relay({.life = 1});
  for (const int node : {0, 1}) relay.agent(node);
  relay.hears(1, WorkerStarted{Rank(0), View(1), 10}, 7).did();
  EXPECT_EQ(relay.hears(2, Beat{.alive = {{6, {Rank(0), View(1), View(0)}}}}).did(),
            "2: kill 6 of rank 0");
}

TEST(ControllerRelay, WhoWasGivenUpWithItsNodeIsNotHeardWhenItIsBack) {
  TestRelay relay;
  relay.agent(2).ready(3).job_runs();
  EXPECT_THAT(relay.breaks(1).did(), HasSubstr("3: start rank 0"));
  relay.agent(0, 5).did();
  EXPECT_EQ(relay.hears(5, WorkerStarted{Rank(0), View(1), 10}, 1).did(), "5: kill 1 of rank 0");
}

TEST(ControllerRelay, OrdersAreForTheNewestProcess) {
  TestRelay relay({.life = 1});
  for (const int node : {0, 1}) relay.agent(node);
  // Two processes of rank 0 live; the newer one registers first.
  relay.hears(1, WorkerStarted{Rank(0), View(1), 10}, 7).did();
  EXPECT_EQ(relay.hears(2, WorkerStarted{Rank(0), View(1), 11}, 6).did(), "2: kill 6 of rank 0");
}

// ---- a new controller

TEST(ControllerRelay, ANewControllerAdoptsWhatLives) {
  TestRelay relay({.life = 1});
  for (const int node : {0, 1})
    relay.agent(node).started(node, node + 1).joined(node, node + 1, View(4)).ready(node + 1);
  EXPECT_EQ(relay.did(), "1: welcome 1, 1: leave rank 0, 2: welcome 1, 2: leave rank 1")
      << "nothing has happened but the change of controllers, and no move goes on";
  EXPECT_EQ(relay.wait(4).did(), "");
}

TEST(ControllerRelay, AndStartsWhatDoesNot) {
  TestRelay relay({.life = 1});
  relay.agent(0).started(0, 1).joined(0, 1, View(4)).ready(1).agent(1).ready(2);
  EXPECT_EQ(relay.wait(2.1).agent(2).did().find("start"), std::string::npos)
      << "it may live on the node that is not heard, for nobody misses it";
  const std::string did = relay.ready(3).did();
  EXPECT_THAT(did, HasSubstr("1: stop rank 0"));
  EXPECT_THAT(did, HasSubstr("2: start rank 1"));
}

TEST(ControllerRelay, ItsStartsAreNewerThanThoseOfTheFormer) {
  TestRelay relay({.life = 3});
  relay.run_attaches().agent(0).ready(1).agent(1).ready(2).wait(2.1).did();
  EXPECT_EQ(relay.started(0, first_start(2) + 500).did(), "1: kill 501 of rank 0");
  EXPECT_EQ(relay.started(0, first_start(3)).did(), "run: rank 0 is 10");
}

// ---- the run

TEST(ControllerRelay, ARunThatComesLateHearsWhatHappened) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(1, WorkerLogTail{Rank(0), "log", {"last words"}});
  EXPECT_EQ(relay.run_attaches().did(),
            "run: welcome 0, run: rank 0 is 10, run: rank 1 is 11, run: words");
  EXPECT_EQ(relay.ended(1, 2).did(), "run: rank 1 is 0, 1: stop rank 0, 2: start rank 1");
}

// It may end between the two, and whoever has read the words takes what they tell for known.
TEST(ControllerRelay, ARunKnowsOfARecoveryBeforeItReadsOfIt) {
  TestRelay relay;
  relay.run_attaches().job_runs().story();
  EXPECT_THAT(relay.ended(1, 2).story(), testing::StartsWith("note, words"));
}

TEST(ControllerRelay, WhatNobodyHearsIsKeptWithinALimit) {
  TestRelay relay;
  relay.agent(0);
  for (int i = 0; i < 5000; ++i) relay.hears(1, WorkerLogTail{Rank(0), "log", {}});
  relay.did();
  const std::string did = relay.run_attaches().did();
  EXPECT_EQ(std::count(did.begin(), did.end(), ','), 4096);
}

TEST(ControllerRelay, AWishToDrainReachesThoseWhoComeLaterToo) {
  TestRelay relay;
  relay.run_attaches().agent(0).ready(1).agent(1).did();
  EXPECT_EQ(relay.hears(kRunStream, Drain{}).did(), "1: drain");
  EXPECT_THAT(relay.ready(2).did(), HasSubstr("2: drain"));
}

TEST(ControllerRelay, AWishToDrainOutlivesTheControllerThatHeardIt) {
  TestRelay relay({.life = 1});
  relay.run_attaches().agent(0).ready(1).agent(1).did();
  EXPECT_EQ(relay.hears(2, AgentReady{.is_draining = true}).did(), "1: drain, 2: drain");
  relay.hears(7, OperatorHello{});
  EXPECT_TRUE(relay.status().is_draining);
}

TEST(ControllerRelay, AllAreToldOfTheEndAndNothingHappensAfterIt) {
  TestRelay relay;
  relay.run_attaches().job_runs();
  WorkerEnded ended{Rank(0), View(1), Node(0), "no such file", false, true};
  const std::string did = relay.hears(1, ended, 1).did();
  for (const char* const who : {"1: ", "2: ", "run: "})
    EXPECT_THAT(did, HasSubstr(absl::StrCat(who, "end: no such file")));
  ASSERT_TRUE(relay.relay().end().has_value());
  EXPECT_TRUE(relay.relay().end()->bad_input);
  EXPECT_EQ(relay.alive(1, 2).wait(20).did(), "");
  EXPECT_TRUE(relay.relay().is_awaited());
  relay.breaks(1).breaks(2).breaks(kRunStream);
  EXPECT_FALSE(relay.relay().is_awaited());
}

// Else the run would take the controller for lost and begin the job again.
TEST(ControllerRelay, WhoComesAfterTheEndIsToldOfIt) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(1, WorkerEnded{Rank(0), View(1), Node(0), "no such file", false, true}, 1)
      .breaks(1)
      .breaks(2)
      .did();
  EXPECT_TRUE(relay.relay().is_awaited()) << "the run has not heard of it";
  EXPECT_EQ(relay.run_attaches().agent(0, 7).did(), "run: end: no such file, 7: end: no such file");
  EXPECT_TRUE(relay.relay().is_awaited()) << "what is sent has to arrive";
  relay.breaks(kRunStream).breaks(7);
  EXPECT_FALSE(relay.relay().is_awaited());
}

// A short job is over before its run has found the controller.
TEST(ControllerRelay, ARunThatComesAfterTheEndHearsWhatHappenedFirst) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(1, WorkerLogTail{Rank(0), "log", {"last words"}});
  relay.hears(1, WorkerEnded{Rank(0), View(1), Node(0), "no such file", false, true}, 1).did();
  EXPECT_EQ(relay.run_attaches().did(), "run: words, run: end: no such file");
}

TEST(ControllerRelay, ARunThatMayNotGoOnEndsTheJob) {
  TestRelay relay;
  relay.job_runs().run_attaches().did();
  EXPECT_THAT(relay.hears(2, EndJob{false, false, "why"}).did(), testing::StartsWith("cut 2"))
      << "an agent has no say in it";
  relay.hears(kRunStream, EndJob{false, false, "its term is over"});
  EXPECT_THAT(relay.did(), testing::HasSubstr("1: end: its term is over"));
}

// ---- operators, and nodes that leave

TEST(ControllerRelay, AnOperatorIsToldHowTheJobIs) {
  TestRelay relay;
  relay.job_runs();
  relay.hears(
      2, WorkerReport{.kind = WorkerReport::Kind::kPublished, .rank = Rank(1), .step = Step(4)},
      first_start(0) + 1);
  relay.hears(9, OperatorHello{});
  const JobStatus& status = relay.status();
  EXPECT_EQ(status.view, View(1));
  EXPECT_TRUE(status.is_open);
  EXPECT_EQ(status.durable, Step(4));
  ASSERT_EQ(status.nodes.size(), 3u);
  EXPECT_EQ(status.nodes[0].state, NodeStatus::State::kInUse);
  EXPECT_EQ(status.nodes[2].state, NodeStatus::State::kAbsent);
  ASSERT_EQ(status.roles.size(), 2u);
  EXPECT_EQ(status.roles[1].name, "1.0");
  EXPECT_EQ(status.roles[1].node, Node(1));
  EXPECT_EQ(status.roles[1].pid, 11);
  EXPECT_EQ(status.roles[1].phase, RoleStatus::Phase::kRunning);
  relay.agent(2).ready(3).breaks(2).hears(9, OperatorHello{});
  EXPECT_EQ(relay.status().nodes[1].state, NodeStatus::State::kLost);
  EXPECT_EQ(relay.status().nodes[2].state, NodeStatus::State::kInUse);
}

TEST(ControllerRelay, AnOperatorDrainsAndHearsOfTheEnd) {
  TestRelay relay;
  relay.job_runs();
  EXPECT_THAT(relay.hears(9, Drain{}).did(), HasSubstr("cut 9")) << "who is that?";
  relay.hears(10, OperatorHello{});
  relay.did();
  EXPECT_EQ(relay.hears(10, Drain{}).did(), "1: drain, 2: drain");
  relay.hears(10, EndJob{.reason = "an operator has stopped it"});
  EXPECT_THAT(relay.did(), HasSubstr("10: end: an operator has stopped it"));
  EXPECT_TRUE(relay.relay().end()->is_hopeless) << "nobody starts it again by himself";
  EXPECT_EQ(relay.hears(11, OperatorHello{}).did(), "11: end: an operator has stopped it");
}

TEST(ControllerRelay, ANodeThatLeavesIsReplacedAndFreeToGo) {
  TestRelay relay;
  relay.run_attaches().job_runs().restored().agent(2).ready(3).did();
  EXPECT_EQ(relay.hears(2, NodeLeaves{}).did(), "") << "all may be leaving";
  const std::string did = relay.wait(0.5).did();
  EXPECT_THAT(did, HasSubstr("2: kill 2 of rank 1"));
  EXPECT_THAT(did, HasSubstr("2: end: node 1 has left the job"));
  EXPECT_THAT(did, HasSubstr("3: start rank 1"));
  EXPECT_EQ(relay.ended(1, first_start(0) + 1).breaks(2).did(), "") << "nobody asks what it says";
}

TEST(ControllerRelay, WhoDrainsTheJobDoesNotReplaceItsNodesBefore) {
  TestRelay relay;
  relay.run_attaches().job_runs().restored().agent(2).ready(3).hears(2, NodeLeaves{}).did();
  EXPECT_EQ(relay.hears(kRunStream, Drain{}).did(), "1: drain, 2: drain, 3: drain");
  EXPECT_EQ(relay.wait(1).did(), "");
}

TEST(ControllerRelay, NodesThatLeaveTogetherDoNotReplaceEachOther) {
  TestRelay relay;
  relay.run_attaches().job_runs().restored().agent(2).ready(3).hears(2, NodeLeaves{}).did();
  EXPECT_EQ(relay.wait(0.2).hears(1, NodeLeaves{}).hears(3, NodeLeaves{}).did(), "");
  EXPECT_EQ(relay.wait(0.2).did(), "1: drain, 2: drain, 3: drain");
  EXPECT_EQ(relay.wait(1).did(), "") << "all stay to the end";
}

TEST(ControllerRelay, ANodeThatNobodyCanReplaceDrainsTheJob) {
  TestRelay relay;
  relay.run_attaches().job_runs().restored().hears(2, NodeLeaves{});
  EXPECT_EQ(relay.wait(0.5).did(), "1: drain, 2: drain");
}

}  // namespace
}  // namespace evermoe
