// Protected jobs of real processes: real SIGKILL and SIGSTOP for workers, agents and the
// controller, and in the end the same bits as the job that was left alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protected_job.h"

namespace evermoe {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// For a step. Of a job that stands still the others have half of it to show that they move: one
// second is too short where their code is instrumented and others use the cores, too.
#ifdef __SANITIZE_THREAD__
constexpr int kDeadlineSeconds = 10;
#else
constexpr int kDeadlineSeconds = 2;
#endif

TEST(ProtectedRun, AnUndisturbedJobFinishes) {
  ProtectedJob job;
  Pids during;
  const RunOutcome outcome = job.at_step(30, [&] { during = job.pids(); }).run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.steps, Step(60));
  EXPECT_THAT(outcome.failures, IsEmpty());
  EXPECT_EQ(during.size(), 8u) << "4 workers, 3 agents, a controller";
  EXPECT_EQ(job.digest(), digest_of_undisturbed());
}

// The controller sends the first plan to four of them.
TEST(ProtectedRun, AgentsGetTheFirstPlanFromEachOther) {
  ProtectedJob job;
  job.configure(
      "[train]\nsteps = 60\n[parallel]\nstages = 2\nlanes = 3\n[run]\nnodes = 6\n"
      "[protection]\nheartbeat_seconds = 1.5\n");
  const RunOutcome outcome = job.run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  std::string agents;
  for (int node = 0; node < 6; ++node) agents += job.log(absl::StrCat("agent-", node));
  EXPECT_THAT(job.log("agent-0"), HasSubstr("tells a plan to "));
  for (const int node : {4, 5}) {
    EXPECT_THAT(job.log(absl::StrCat("agent-", node)),
                ContainsRegex("asks unix:.*/agent-0.*-lines for the plan of view 1"));
  }
  EXPECT_THAT(agents, Not(HasSubstr("asks the controller for the plan instead"))) << job.said();
}

TEST(ProtectedRun, AKilledWorkerIsReplacedAndTheOthersStay) {
  for (const std::string role : {"0.0", "0.1", "1.0", "1.1"}) {
    SCOPED_TRACE(role);
    ProtectedJob job;
    Pids after;
    const RunOutcome outcome = job.kill(30, role).at_step(55, [&] { after = job.pids(); }).run();
    ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
    EXPECT_EQ(job.digest(), digest_of_undisturbed()) << job.said();
    ASSERT_THAT(outcome.failures, SizeIs(1)) << job.said();
    const FailureRecord& failure = outcome.failures[0];
    EXPECT_THAT(failure.roles, ElementsAre(role));
    EXPECT_EQ(failure.kind, "killed by signal 9 (Killed)");
    ASSERT_TRUE(failure.recovery && failure.recovery->resume) << job.said();
    EXPECT_FALSE(failure.recovery->restarted_all);
    EXPECT_THAT(failure.recovery->rolled_back_stages, ElementsAre(role[0] - '0'));
    EXPECT_EQ(outcome.restarts, 0);
    for (const auto& [name, pid] : job.before()) {
      if (name == role)
        EXPECT_NE(after[name], pid);
      else
        EXPECT_EQ(after[name], pid) << name;
    }
  }
}

TEST(ProtectedRun, AKilledControllerStopsNothing) {
  ProtectedJob job(200);
  Pids after;
  const RunOutcome outcome =
      job.kill(50, "controller").at_step(195, [&] { after = job.pids(); }).run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed(200)) << job.said();
  ASSERT_THAT(outcome.failures, SizeIs(1)) << job.said();
  EXPECT_THAT(outcome.failures[0].roles, ElementsAre("controller"));
  EXPECT_EQ(outcome.failures[0].kind, "killed by signal 9 (Killed)");
  for (const auto& [name, pid] : job.before()) {
    if (name == "controller")
      EXPECT_NE(after[name], pid);
    else
      EXPECT_EQ(after[name], pid) << name;
  }
}

TEST(ProtectedRun, AStoppedControllerIsReplaced) {
  ProtectedJob job(400);
  job.set("protection.heartbeat_seconds=0.1");
  const RunOutcome outcome = job.kill(50, "controller", SIGSTOP).run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed(400)) << job.said();
  EXPECT_THAT(job.said(), HasSubstr("the controller is hung"));
}

TEST(ProtectedRun, AWorkerKilledWhileNoControllerLooksIsReplaced) {
  ProtectedJob job(200);
  job.at_step(50, [&] {
    ::kill(job.pids().at("controller"), SIGKILL);
    ::kill(job.pids().at("1.1"), SIGKILL);
  });
  const RunOutcome outcome = job.run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed(200)) << job.said();
  EXPECT_THAT(job.said(), HasSubstr("stage 1"));
}

TEST(ProtectedRun, ANodeIsLostWithItsAgentAndASpareTakesOver) {
  for (const bool whole_group : {true, false}) {
    SCOPED_TRACE(whole_group);
    ProtectedJob job;
    Pids after;
    job.at_step(30, [&] { ::kill(job.pids().at("agent.0") * (whole_group ? -1 : 1), SIGKILL); });
    const RunOutcome outcome = job.at_step(55, [&] { after = job.pids(); }).run();
    ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
    EXPECT_EQ(job.digest(), digest_of_undisturbed()) << job.said();
    EXPECT_FALSE(after.contains("agent.0"));
    EXPECT_THAT(job.said(), HasSubstr("node 0 is lost: its agent: killed by signal 9 (Killed)"));
    ASSERT_THAT(outcome.failures, SizeIs(1)) << job.said();
    EXPECT_THAT(outcome.failures[0].roles, testing::UnorderedElementsAre("0.0", "0.1"));
    EXPECT_THAT(job.log("agent-2"), HasSubstr("worker of rank 0"));
  }
}

TEST(ProtectedRun, AStoppedWorkerIsKilledAndReplaced) {
  ProtectedJob job;
  const RunOutcome outcome = job.kill(30, "1.0", SIGSTOP).run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed()) << job.said();
  ASSERT_THAT(outcome.failures, SizeIs(1)) << job.said();
  EXPECT_THAT(outcome.failures[0].roles, ElementsAre("1.0"));
  EXPECT_THAT(outcome.failures[0].kind, HasSubstr("hung: no sign of life"));
  EXPECT_THAT(outcome.failures[0].recovery->detect, testing::Optional(testing::Gt(1.5)));
}

// It lives and says so, but it trains no more.
TEST(ProtectedRun, AWorkerThatHangsIsFoundByThePaceOfTheJob) {
  ProtectedJob job;
  job.script("0 3 31 stall");
  job.set(absl::StrCat("run.deadline_seconds=", kDeadlineSeconds));
  const RunOutcome outcome = job.run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed()) << job.said();
  EXPECT_THAT(job.said(), HasSubstr("nothing has happened for"));
  ASSERT_THAT(outcome.failures, SizeIs(1)) << job.said();
  EXPECT_THAT(outcome.failures[0].recovery->rolled_back_stages, ElementsAre(1)) << job.said();
  EXPECT_EQ(outcome.restarts, 0);
}

TEST(ProtectedRun, AStoppedNodeIsEnded) {
  ProtectedJob job;
  job.set("protection.heartbeat_seconds=0.1");
  job.at_step(30, [&] { ::kill(-job.pids().at("agent.1"), SIGSTOP); });
  const RunOutcome outcome = job.run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed()) << job.said();
  EXPECT_THAT(job.said(), HasSubstr("node 1 is ended: no sign of life"));
}

TEST(ProtectedRun, TheOnlyNodeComesBack) {
  ProtectedJob job;
  job.set("run.nodes=1").set("run.spares=0");
  const RunOutcome outcome = job.kill(30, "agent.0").run();
  ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  EXPECT_EQ(job.digest(), digest_of_undisturbed()) << "from the beginning: nobody had copies";
  EXPECT_THAT(job.said(), HasSubstr("no node is left"));
  EXPECT_EQ(outcome.restarts, 1);
}

// Whatever dies, and when.
TEST(ProtectedRun, RandomKillsCostNoBit) {
  const std::vector<std::string> names = {"0.0", "0.1", "1.0", "1.1", "controller"};
  for (uint32_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    ProtectedJob job(200);
    for (int64_t step = 20; step < 180; step += 50) {
      const std::string victim = names[random() % names.size()];
      job.at_step(step + random() % 20, [&job, victim] {
        const Pids pids = job.pids();
        if (pids.contains(victim)) ::kill(pids.at(victim), SIGKILL);
      });
    }
    const RunOutcome outcome = job.run();
    ASSERT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
    EXPECT_EQ(job.digest(), digest_of_undisturbed(200)) << job.said();
  }
}

}  // namespace
}  // namespace evermoe
