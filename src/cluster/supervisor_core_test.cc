#include "cluster/supervised_job_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Job = SupervisedJob;

TEST(SupervisorCore, AnUndisturbedRunFinishes) {
  Job job;
  job.ready().steps(1, 60).evaluated(60).published(60).finish_all(60);
  EXPECT_EQ(job.did(), "start 0, finished 0");
  EXPECT_EQ(job.core().newest_step(), Step(60));
  EXPECT_EQ(job.core().restarts(), 0);
}

TEST(SupervisorCore, AKilledWorkerStopsTheOthersAtOnceAndAllStartAgain) {
  Job job;
  job.ready().steps(1, 20).published(20).steps(21, 25);
  job.did();
  job.killed(2).tick();
  EXPECT_EQ(job.did(), "log 2, kill");
  job.all_die();
  EXPECT_EQ(job.did(), "") << "not before the back-off is over";
  job.ready(20).steps(21, 60).published(60).finish_all(60);
  EXPECT_EQ(job.did(), "start 1, finished 0");
  EXPECT_EQ(job.core().restarts(), 1);
  EXPECT_THAT(job.said(), HasSubstr("worker 1.0 at step 25: killed by signal 9"));
  EXPECT_THAT(job.said(), HasSubstr("from the newest good checkpoint (step 20)"));
}

TEST(SupervisorCore, AFailureIsRecordedWithItsCost) {
  Job job;
  job.ready().steps(1, 25).killed(1).tick().all_die();
  job.ready(20).steps(21, 25).steps(26, 60).finish_all(60);
  const FailureRecord& failure = job.failure();
  EXPECT_THAT(failure.roles, ElementsAre("0.1"));
  EXPECT_EQ(failure.kind, "killed by signal 9 (Killed)");
  EXPECT_EQ(failure.step, Step(25));
  EXPECT_EQ(failure.accused, std::nullopt);
  EXPECT_EQ(failure.restarted_from_step, Step(20));
  EXPECT_NEAR(failure.seconds_lost, 0.2 + 5 * 0.1, 1e-6) << "back-off and five steps done again";
  std::vector<std::string> moments;
  for (const auto& moment : failure.timeline) moments.push_back(moment.what);
  EXPECT_THAT(moments, ElementsAre("noticed", "all stopped", "started again", "ready", "caught up"));
}

TEST(SupervisorCore, AStepMayBeHeardOfBeforeTheLastWorkerIsReady) {
  Job job;
  job.ready().steps(1, 25).killed(1).tick().all_die();
  job.ready_but_for_last(20).steps(21, 23).last_ready(20).steps(24, 60).finish_all(60);
  EXPECT_EQ(job.failure().restarted_from_step, Step(20));
  EXPECT_THAT(job.said(), HasSubstr("at step 20 of 60"));
}

TEST(SupervisorCore, WhoReportsALostPeerIsNotTheCause) {
  Job job;
  job.ready().steps(1, 3);
  job.fails(0, "peer lost", 2).exits(0, 1).tick();
  EXPECT_EQ(job.did(), "start 0") << "the evidence is uncertain: wait";
  job.wait(0.1).killed(2).tick();
  EXPECT_EQ(job.did(), "log 2, kill");
  EXPECT_THAT(job.failure().roles, ElementsAre("1.0"));
  EXPECT_EQ(job.failure().accused, "1.0");
}

TEST(SupervisorCore, TheGraceEnds) {
  Job job;
  job.ready().steps(1, 3);
  job.did();
  job.fails(3, "the disk is full").exits(3, 1).tick().wait(0.15);
  EXPECT_EQ(job.did(), "");
  job.wait(0.1);
  EXPECT_EQ(job.did(), "log 3, kill");
  EXPECT_EQ(job.failure().kind, "exit code 1: the disk is full");
}

TEST(SupervisorCore, WhoFailedByItselfComesBeforeThoseWhoAccuse) {
  Job job;
  job.ready().fails(0, "peer lost: 3", 3).fails(1, "peer lost: 0", 0).fails(3, "the disk is full").wait(0.5);
  EXPECT_THAT(job.failure().roles, ElementsAre("1.1"));
  EXPECT_EQ(job.failure().kind, "failed: the disk is full");
}

TEST(SupervisorCore, AccusationsAreFollowedToTheirEnd) {
  Job job;
  job.ready().silence(3).wait(2).fails(0, "timeout: 1", 1).fails(1, "timeout: 3", 3).wait(0.5);
  EXPECT_THAT(job.failure().roles, ElementsAre("1.1"));
  EXPECT_THAT(job.failure().kind, HasSubstr("hung: no sign of life, and accused by worker 0.0"));
}

TEST(SupervisorCore, AccusationsInACircleBlameOneOfIt) {
  Job job;
  job.ready().fails(0, "timeout", 1).fails(1, "timeout", 0).wait(0.5);
  EXPECT_EQ(job.failure().roles.size(), 1u);
}

TEST(SupervisorCore, AnAccusationOfNobodyThatExistsIsHarmless) {
  Job job;
  job.ready().fails(0, "timeout", 17).wait(0.5);
  EXPECT_THAT(job.failure().roles, ElementsAre("0.0"));
}

TEST(SupervisorCore, TwoDeathsInOneBatchAreOneFailure) {
  Job job;
  job.ready().killed(1).killed(3).tick();
  EXPECT_THAT(job.failure().roles, ElementsAre("0.1", "1.1"));
  EXPECT_EQ(job.core().failures().size(), 1u);
}

TEST(SupervisorCore, ASilentWorkerIsHung) {
  Job job;
  job.ready().steps(1, 2).silence(1);
  job.did();
  job.wait(4.9);
  EXPECT_EQ(job.did(), "");
  job.wait(0.2);
  EXPECT_EQ(job.did(), "log 1, kill");
  EXPECT_THAT(job.failure().kind, HasSubstr("hung: no sign of life for 5"));
  EXPECT_THAT(job.failure().roles, ElementsAre("0.1"));
}

TEST(SupervisorCore, BeforeItsFirstReportAWorkerMayTakeLonger) {
  Job job;
  for (int rank = 0; rank < 4; ++rank) job.silence(rank);
  job.tick().wait(100);
  for (int rank = 0; rank < 4; ++rank) job.silence(rank);
  EXPECT_EQ(job.did(), "start 0");
}

TEST(SupervisorCore, WhenTheSupervisorItselfStoodStillNobodyIsAccused) {
  Job job;
  job.ready().steps(1, 2);
  job.did();
  job.jump(1000);
  job.wait(4);
  EXPECT_EQ(job.did(), "");
}

TEST(SupervisorCore, AliveButWithoutStepsIsHung) {
  Job job;
  job.ready().steps(1, 5);
  job.did();
  job.wait(64);
  EXPECT_EQ(job.did(), "");
  job.wait(1.5);
  EXPECT_EQ(job.did(), "kill");
  EXPECT_THAT(job.failure().kind, HasSubstr("no step was committed for 65"));
  EXPECT_TRUE(job.failure().roles.empty());
}

TEST(SupervisorCore, SlowStepsAreNoStandstill) {
  Job job;
  job.ready().steps(1, 10, 30);
  job.did();
  job.wait(30 * 20 - 1);
  EXPECT_EQ(job.did(), "");
  job.wait(10);
  EXPECT_EQ(job.did(), "kill");
}

TEST(SupervisorCore, AnEvaluationMayTakeLong) {
  Job job;
  job.ready().steps(1, 20);
  job.did();
  job.wait(9 * 60);
  EXPECT_EQ(job.did(), "");
  job.wait(66);
  EXPECT_EQ(job.did(), "kill");
}

TEST(SupervisorCore, AWorkerThatIsNeverReadyIsNamed) {
  Job job;
  job.start().wait(10 * 60 + 6);
  EXPECT_EQ(job.did(), "start 0, log 0, log 1, log 2, log 3, kill");
  EXPECT_THAT(job.failure().kind, HasSubstr("not ready"));
}

TEST(SupervisorCore, RestartsWithoutProgressAreLimited) {
  Job job;
  job.ready().steps(1, 5).killed(0).tick().all_die();
  for (int i = 0; i < 3; ++i) job.ready().steps(1, 5).killed(0).tick().all_die();
  EXPECT_THAT(job.did(), HasSubstr("start 3, log 0, kill, failed 1"));
  EXPECT_THAT(job.reason(), HasSubstr("given up after 3 restarts in a row without progress beyond step 5"));
  EXPECT_THAT(job.reason(), HasSubstr("worker 0.0: killed by signal 9"));
  EXPECT_EQ(job.core().failures().size(), 4u);
}

TEST(SupervisorCore, ProgressForgivesEarlierRestarts) {
  Job job;
  job.ready();
  for (int i = 1; i <= 20; ++i) job.steps(1, i).killed(0).tick().all_die().ready();
  EXPECT_EQ(job.core().restarts(), 20);
  job.steps(1, 60).finish_all(60);
  EXPECT_THAT(job.did(), HasSubstr("finished 0"));
}

TEST(SupervisorCore, ACheckpointIsProgressToo) {
  Job job;
  job.ready().steps(1, 30);
  for (int i = 1; i <= 20; ++i) job.killed(0).tick().all_die().ready(i).published(i);
  EXPECT_EQ(job.core().restarts(), 20);
}

TEST(SupervisorCore, BackOffDoubles) {
  Job job;
  job.ready().steps(1, 5);
  std::vector<double> delays;
  for (int i = 0; i < 3; ++i) {
    job.killed(0).tick().all_die();
    delays.push_back(absl::ToDoubleSeconds(job.core().next_deadline()) - job.now());
    job.ready();
  }
  EXPECT_THAT(delays, ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.2, 0.4, 0.8}));
}

TEST(SupervisorCore, WithoutRestartsTheFirstFailureIsTheLast) {
  SupervisorCoreOptions options = Job::defaults();
  options.restarts_max = 0;
  Job job(options);
  job.ready().killed(0).tick().all_die();
  EXPECT_EQ(job.did(), "start 0, log 0, kill, failed 1");
}

TEST(SupervisorCore, BadInputEndsTheRunWithoutRestart) {
  Job job;
  job.tick().fails(1, "peer lost", 0).fails(0, "data.path: no such file", std::nullopt, true).tick().all_die();
  EXPECT_EQ(job.did(), "start 0, kill, failed 2");
  EXPECT_EQ(job.reason(), "data.path: no such file");
  EXPECT_TRUE(job.core().failures().empty());
}

TEST(SupervisorCore, ExitCodeTwoMeansBadInputEvenWithoutAReport) {
  Job job;
  job.tick().exits(0, 2, "--rank: not a number").tick().all_die();
  EXPECT_EQ(job.did(), "start 0, kill, failed 2");
  EXPECT_THAT(job.reason(), HasSubstr("--rank: not a number"));
}

TEST(SupervisorCore, EndingTooEarlyIsAFailure) {
  Job job;
  job.ready().exits(2, 0).wait(0.5);
  EXPECT_EQ(job.did(), "start 0, log 2, kill");
  EXPECT_EQ(job.failure().kind, "ended before its work was done");
}

TEST(SupervisorCore, ACrashBehindTheLastWordIsNoFailure) {
  Job job;
  job.ready().steps(1, 60).says_finished(60).killed(0, SIGSEGV).exits(1, 1).exits(2, 0).exits(3, 0).tick();
  EXPECT_EQ(job.did(), "start 0, finished 0");
  EXPECT_THAT(job.said(), HasSubstr("worker 0.0 had finished its work, then killed by signal 11"));
}

TEST(SupervisorCore, ASpawnThatFailsIsAFailure) {
  SupervisorCore core(Job::defaults());
  core.step(absl::Seconds(1), Tick{});
  for (int rank = 0; rank < 4; ++rank) core.step(absl::Seconds(1), WorkerNotStarted{Rank(rank), "cannot fork"});
  core.step(absl::Seconds(1), Tick{});
  ASSERT_EQ(core.failures().size(), 1u);
  EXPECT_EQ(core.failures()[0].kind, "cannot be started: cannot fork");
}

TEST(SupervisorCore, AnUnreadableReportIsAFailure) {
  SupervisorCore core(Job::defaults());
  core.step(absl::Seconds(1), Tick{});
  core.step(absl::Seconds(1), WorkerUnreadable{Rank(1), "not a report"});
  core.step(absl::Seconds(1), Tick{});
  ASSERT_EQ(core.failures().size(), 1u);
  EXPECT_THAT(core.failures()[0].roles, ElementsAre("0.1"));
}

TEST(SupervisorCore, TheFirstSignalDrains) {
  Job job;
  job.ready().steps(1, 7).signal(SIGINT);
  EXPECT_EQ(job.did(), "start 0, signal 15");
  job.steps(8, 8).published(8).finish_all(8, true);
  EXPECT_EQ(job.did(), "drained 0");
  EXPECT_EQ(job.core().newest_step(), Step(8));
}

TEST(SupervisorCore, TheSecondSignalQuits) {
  Job job;
  job.ready().steps(1, 7).signal(SIGTERM).signal(SIGINT).all_die();
  EXPECT_EQ(job.did(), "start 0, signal 15, kill, failed 130");
}

TEST(SupervisorCore, BeforeAllAreReadyThereIsNothingToDrain) {
  Job job;
  job.tick().signal(SIGTERM).all_die();
  EXPECT_EQ(job.did(), "start 0, kill, drained 0");
}

TEST(SupervisorCore, ASignalEndsTheBackOff) {
  Job job;
  job.ready().killed(0).tick().all_die();
  job.did();
  job.signal(SIGTERM);
  EXPECT_EQ(job.did(), "drained 0");
}

TEST(SupervisorCore, AFailureWhileDrainingIsNotRestarted) {
  Job job;
  job.ready().steps(1, 7).signal(SIGTERM).killed(1).tick().all_die();
  EXPECT_THAT(job.did(), HasSubstr("failed 1"));
  EXPECT_THAT(job.reason(), HasSubstr("failed while stopping"));
}

TEST(SupervisorCore, AWorkerThatSigkillDoesNotEndEndsTheRun) {
  Job job;
  job.ready().killed(0).tick().wait(11);
  EXPECT_THAT(job.did(), HasSubstr("failed 1"));
  EXPECT_THAT(job.reason(), HasSubstr("does not end"));
}

TEST(SupervisorCore, ACheckpointPublishedWhileStoppingCounts) {
  Job job;
  job.ready().steps(1, 20).killed(3).tick().published(20).all_die();
  EXPECT_THAT(job.said(), HasSubstr("(step 20)"));
}

// The same random events at the same times give the same actions, whatever they are, and never
// break the core: between an attempt's start and its end each process ends once.
TEST(SupervisorCore, RandomFailuresAlwaysComeToAnEnd) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::srand(seed);
    Job job;
    std::string did;
    for (int attempt = 0; attempt < 200 && !absl::StrContains(did, "failed 1"); ++attempt) {
      job.ready();
      const int victim = std::rand() % 4;
      switch (std::rand() % 5) {
        case 0: job.killed(victim); break;
        case 1: job.exits(victim, 1, "words"); break;
        case 2: job.fails(victim, "peer lost", std::rand() % 5); break;
        case 3: job.silence(victim).wait(6); break;
        case 4: job.fails(victim, "timeout", std::rand() % 4).killed(std::rand() % 4); break;
      }
      job.wait(0.5).all_die();
      did = job.did();
    }
    EXPECT_THAT(did, HasSubstr("failed 1"));
    EXPECT_EQ(job.core().failures().size(), 4u);
  }
}

}  // namespace
}  // namespace evermoe
