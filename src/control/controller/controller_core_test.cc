// What the controller decides when workers die, hang or fail. The recovery of protected jobs is
// tested with real members in sim/; here are the decisions that need no state: restarts, limits,
// deadlines, ends.
#include "control/controller/controller_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using Job = ControlledJob;

Job unprotected() { return Job(Job::unprotected()); }

TEST(ControllerCore, AnUndisturbedJobFinishes) {
  Job job = unprotected();
  job.begins();
  EXPECT_EQ(job.did(), "start 0.0, start 0.1, start 1.0, start 1.1, restart all in view 1");
  job.commits(1, 60).evaluates(60).all_finish(60);
  EXPECT_EQ(job.did(), "release");
  for (int rank = 0; rank < Job::kWorkers; ++rank) job.worker(rank).leaves();
  EXPECT_EQ(job.did(), "end");
  EXPECT_TRUE(job.end().ok);
  EXPECT_TRUE(job.core().recoveries().empty());
}

TEST(ControllerCore, WithoutProtectionALostWorkerSendsAllBack) {
  Job job = unprotected();
  job.begins().commits(1, 20).saves(20).commits(21, 25).did();
  job.worker(2).dies();
  EXPECT_EQ(job.did(), "") << "not before the back-off is over";
  job.wait(0.3);
  EXPECT_EQ(job.did(), "start 1.0, restart all in view 2") << "the others keep their processes";
  EXPECT_THAT(job.said(), HasSubstr("worker 1.0 is lost: killed by signal 9 (Killed)"));
  EXPECT_THAT(job.said(), HasSubstr("restart 1 of at most 3 in a row without progress"));
}

// What it has computed is further than the job, which is at its checkpoint again.
TEST(ControllerCore, AProcessOfARunThatWasGivenUpDoesNotJoin) {
  Job job = unprotected();
  job.begins().commits(1, 20).saves(20).commits(21, 25).worker(2).dies().wait(0.3).did();
  job.stranger_comes(2, 0, View(1));
  EXPECT_THAT(job.did(), testing::StartsWith("kill 1.0, kill 1.0"))
      << "of the older one nobody hears any more";
  EXPECT_THAT(job.said(), HasSubstr("a process of a run that was given up has come in its place"));
  job.wait(0.5);
  EXPECT_EQ(job.did(), "start 1.0, restart all in view 3");
}

// Another host has had the job meanwhile, with fewer machines.
TEST(ControllerCore, AProcessThatTrainedOnOtherLanesDoesNotJoin) {
  const MembershipChange other{.step = Step(7), .resting = {Rank(3)}, .view = View(2)};
  for (const bool is_other : {false, true}) {
    SCOPED_TRACE(is_other);
    Job job{ControllerOptions()};
    job.begins().commits(1, 12).worker(2).dies().wait(0.3).did();
    job.stranger_comes(2, 0, View(1), is_other ? MembershipHistory{other} : MembershipHistory{});
    const std::string did = job.did();
    EXPECT_EQ(did.starts_with("kill 1.0"), is_other) << did;
  }
}

TEST(ControllerCore, ARestartIsRecordedWithItsCost) {
  Job job = unprotected();
  job.begins().commits(1, 20).saves(20).commits(21, 25).worker(1).dies().wait(0.3).commits(21, 25);
  EXPECT_FALSE(job.recovery().is_over()) << "it is not yet where it was";
  job.commits(26, 26);
  const RecoveryRecord& record = job.recovery();
  EXPECT_THAT(record.roles, ElementsAre("0.1"));
  EXPECT_THAT(record.causes, ElementsAre("0.1: killed by signal 9 (Killed)"));
  EXPECT_EQ(record.step, Step(25));
  EXPECT_TRUE(record.restarted_all);
  EXPECT_EQ(record.restarts, 1);
  EXPECT_NEAR(absl::ToDoubleSeconds(record.resumed - record.noticed), 0.3 + 6 * 0.1, 1e-6)
      << "back-off, five steps done again and the next one";
}

// The steps between the checkpoint and the failure may take longer than a single step may.
TEST(ControllerCore, StepsThatAreDoneAgainAreMovement) {
  Job job = unprotected();
  job.begins().commits(1, 50, 10).worker(3).dies().wait(0.3).did();
  job.commits(1, 49, 10);
  EXPECT_EQ(job.did(), "");
  EXPECT_THAT(job.said(), Not(HasSubstr("nothing has happened")));
}

TEST(ControllerCore, TwoDeathsAtOnceAreOneRestart) {
  Job job = unprotected();
  job.begins().commits(1, 5).did();
  job.worker(1).dies().worker(3).dies().wait(0.3);
  EXPECT_EQ(job.did(), "start 0.1, start 1.1, restart all in view 2");
  EXPECT_THAT(job.recovery().roles, ElementsAre("0.1", "1.1"));
  EXPECT_EQ(job.recovery().restarts, 1);
  EXPECT_THAT(job.said(), Not(HasSubstr("restart 2 of")));
}

TEST(ControllerCore, BadInputEndsTheJobWithoutRestart) {
  Job job = unprotected();
  job.worker(0).refuses("data.path: no such file");
  EXPECT_THAT(job.did(), testing::EndsWith("refuse"));
  EXPECT_EQ(job.end().reason, "data.path: no such file");
  EXPECT_TRUE(job.core().recoveries().empty());
}

TEST(ControllerCore, DivergenceEndsTheJobWithoutRestartThoughTheInputIsNotBad) {
  Job job = unprotected();
  job.begins().commits(1, 5).worker(0).diverges();
  EXPECT_THAT(job.did(), testing::EndsWith("fail"));
  EXPECT_EQ(job.end().reason, "training diverged");
  EXPECT_TRUE(job.core().recoveries().empty());
}

TEST(ControllerCore, AWorkerThatComputesOtherBitsIsRefused) {
  Job job = unprotected();
  for (int rank = 0; rank < Job::kWorkers; ++rank)
    job.worker(rank).computes_with(rank == 3 ? "cpu=AVX2\n" : "cpu=AVX512\n");
  job.begins();
  EXPECT_THAT(job.did(), testing::EndsWith("refuse"));
  EXPECT_EQ(job.end().reason,
            "worker 1.1 on node 0 would compute other bits than worker 0.0 on node 0: cpu is "
            "AVX512 there and AVX2 here");
}

TEST(ControllerCore, AJobThatStandsStillThoughAllMoveGoesBackInMemoryAndThenOnDisk) {
  ControllerOptions options;
  options.step_max = absl::Seconds(2);
  options.probe_min = absl::Seconds(1);
  Job job(options);
  job.begins().commits(1, 5).did();
  job.wait(3.5);
  EXPECT_EQ(job.did(), "go on in view 2, all go back in view 3");
  job.wait(2.5);
  EXPECT_EQ(job.did(), "") << "it may be slow";
  job.wait(3);
  EXPECT_EQ(job.did(), "go on in view 4, all go back in view 5");
  job.wait(9.5);
  EXPECT_EQ(job.did(), "go on in view 6, all go back in view 7");
  job.wait(17.5);
  EXPECT_EQ(job.did(), "go on in view 8, restart all in view 9");
  job.commits(1, 8).did();
  job.wait(3.5);
  EXPECT_EQ(job.did(), "go on in view 10, all go back in view 11") << "it has come further since";
}

// Nobody makes a commit before all have a state.
TEST(ControllerCore, AStandstillIsFoundThoughSomebodysWordOfItsStateWasLost) {
  ControllerOptions options;
  options.step_max = absl::Seconds(2);
  options.probe_min = absl::Seconds(1);
  Job job(options);
  job.worker(3).restores_unheard().begins().wait(5).did();
  job.commits(1, 5).wait(3.5);
  EXPECT_EQ(job.did(), "go on in view 2, all go back in view 3");
}

// ---- nodes that compute other bits

ControllerOptions two_nodes_and_spares(int spares) {
  ControllerOptions options;
  options.nodes = 2;
  options.spares = spares;
  options.restarts_max = 3;
  return options;
}

TEST(ControllerCore, ASpareThatComputesOtherBitsIsLeftOutForTheNextOne) {
  Job job(two_nodes_and_spares(2));
  job.node_computes_with(2, "cpu=AVX2\n");
  job.begins().commits(1, 5).did();
  job.loses_node(1).wait(1);
  EXPECT_EQ(job.did(),
            "start 1.0 on 2, start 1.1 on 2, kill 1.0, start 1.0 on 3, kill 1.1, start 1.1 on 3, "
            "go on in view 2");
  EXPECT_THAT(job.said(), HasSubstr("node 2 is left out\n"));
  EXPECT_THAT(job.recovery().causes, Contains("1.0: would compute other bits than worker 0.0 on "
                                              "node 0: cpu is not set there and AVX2 here"));
}

TEST(ControllerCore, ASpareThatSaysThatItComputesOtherBitsIsLeftOutBeforeItIsNeeded) {
  Job job(two_nodes_and_spares(1));
  job.node_joins_with(2, "cpu=AVX2\n").begins().commits(1, 5).did();
  EXPECT_THAT(job.said(),
              HasSubstr("node 2 is left out: it would compute other bits than worker 0.0 "
                        "on node 0: cpu is not set there and AVX2 here"));
  job.loses_node(1).wait(1);
  EXPECT_EQ(job.did(), "start 1.0, start 1.1, go on in view 2");
}

TEST(ControllerCore, ASpareThatComesLateAndComputesOtherBitsIsLeftOutAtOnce) {
  Job job(two_nodes_and_spares(2));
  job.begins().loses_node(2).loses_node(3).commits(1, 5).did();
  EXPECT_THAT(job.said(), testing::Not(HasSubstr("left out")));
  job.node_joins_with(2, "cpu=AVX2\n");
  EXPECT_THAT(job.said(), HasSubstr("node 2 is left out: it would compute other bits than worker "
                                    "0.0 on node 0: cpu is not set there and AVX2 here"));
  job.node_joins_with(2, "cpu=AVX2\n").loses_node(1).wait(1);
  EXPECT_EQ(job.did(), "start 1.0, start 1.1, go on in view 2") << "also when it comes again";
}

TEST(ControllerCore, ANodeThatComputesOtherBitsAtTheBeginningNeedsASpareInItsPlace) {
  Job job(two_nodes_and_spares(1));
  job.node_computes_with(1, "cpu=AVX2\n").begins();
  EXPECT_THAT(job.did(),
              testing::StartsWith("start 0.0, start 0.1, start 1.0 on 1, start 1.1 on 1, "
                                  "kill 1.0, start 1.0 on 2"));
  EXPECT_FALSE(job.has_ended());

  Job alone(two_nodes_and_spares(0));
  alone.node_computes_with(1, "cpu=AVX2\n").begins();
  EXPECT_TRUE(alone.end().bad_input);
}

TEST(ControllerCore, EndingTooEarlyIsAFailure) {
  Job job = unprotected();
  job.begins().commits(1, 5).worker(2).leaves();
  EXPECT_THAT(job.recovery().causes, ElementsAre("1.0: ended before its work was done"));
}

TEST(ControllerCore, ACrashAfterTheReleaseIsNoFailure) {
  Job job = unprotected();
  job.begins().commits(1, 60).all_finish(60);
  job.worker(0)
      .dies("killed by signal 11 (Segmentation fault)")
      .worker(1)
      .dies()
      .worker(2)
      .leaves()
      .worker(3)
      .leaves();
  EXPECT_TRUE(job.end().ok);
  EXPECT_TRUE(job.core().recoveries().empty());
}

// Found by sim: seed 1509 of the dense strategy.
TEST(ControllerCore, WhoWasCutOffAfterTheReleaseIsReleasedAgain) {
  Job job(two_nodes_and_spares(0));
  job.begins().commits(1, 60).all_finish(60).did();
  job.loses_line_to(0).worker(0).is_back();
  EXPECT_EQ(job.did(), "release")
      << "and no view for it, in which those that are gone cannot report";
  job.worker(0).leaves().worker(2).leaves().worker(3).leaves();
  EXPECT_TRUE(job.end().ok);
}

TEST(ControllerCore, ASilentWorkerIsKilledAndNamed) {
  Job job = unprotected();
  job.begins().commits(1, 2).worker(1).stops().did();
  job.wait(4.7);
  EXPECT_EQ(job.did(), "");
  job.wait(0.9);  // a sign of life of its agent, and the back-off
  EXPECT_EQ(job.did(), "kill 0.1, start 0.1, restart all in view 2");
  EXPECT_THAT(job.recovery().causes, ElementsAre("0.1: hung: no sign of life for 5s"));
}

// The view that was opened to see who moves recovers from a loss then. That takes its time.
TEST(ControllerCore, AViewThatReplacesALostWorkerIsNoProbe) {
  ControllerOptions options = Job::unprotected();
  options.step_max = absl::Seconds(2);
  options.probe_min = absl::Seconds(1);
  Job job(options);
  job.begins().commits(1, 5).worker(1).stops().wait(5.6);
  EXPECT_THAT(job.said(), HasSubstr("nothing has happened for"));
  EXPECT_THAT(job.did(), EndsWith("kill 0.1, start 0.1, restart all in view 2"));
  job.wait(1.5);
  EXPECT_EQ(job.did(), "");
  EXPECT_THAT(job.said(), Not(HasSubstr("stands still")));
}

TEST(ControllerCore, AWorkerThatNeverComesUpIsNamed) {
  Job job = unprotected();
  job.worker(3).never_comes_up().wait(119);
  EXPECT_TRUE(job.core().recoveries().empty());
  job.wait(2);
  EXPECT_THAT(job.recovery().causes, ElementsAre("1.1: did not come up in time"));
}

// Who waits for a lost worker fails by it; the death itself is about to be known.
TEST(ControllerCore, WhoReportsALostPeerIsNotTheCause) {
  Job job = unprotected();
  job.begins().commits(1, 3).worker(0).accuses(2).wait(0.4).did();
  job.worker(2).dies();
  EXPECT_THAT(job.recovery().roles, ElementsAre("1.0"));
}

TEST(ControllerCore, AnAccusedWorkerThatNobodySeesDieIsReplaced) {
  Job job = unprotected();
  job.begins().commits(1, 3).worker(0).accuses(1).worker(1).accuses(3).did();
  job.wait(0.8);
  EXPECT_EQ(job.did(), "kill 1.1, start 1.1, restart all in view 2")
      << "accusations are followed to their end";
}

TEST(ControllerCore, AccusationsInACircleBlameOneOfIt) {
  Job job = unprotected();
  job.begins().worker(0).accuses(1).worker(1).accuses(0).wait(0.8);
  EXPECT_EQ(job.recovery().roles.size(), 1u);
}

TEST(ControllerCore, AliveButWithoutStepsIsHung) {
  Job job = unprotected();
  job.begins().commits(1, 5).worker(2).hangs().worker(3).hangs().did();
  job.wait(59);
  EXPECT_EQ(job.did(), "");
  job.wait(8);
  EXPECT_EQ(job.did(),
            "go on in view 2, kill 1.0, kill 1.1, start 1.0, start 1.1, restart all in view 3");
  EXPECT_THAT(job.said(), HasSubstr("nothing has happened for 1m;"));
}

TEST(ControllerCore, SlowStepsAreNoStandstill) {
  Job job = unprotected();
  job.begins().commits(1, 10, 30).did();
  job.wait(30 * 20 - 1);
  EXPECT_EQ(job.did(), "");
  job.wait(2);
  EXPECT_THAT(job.did(), HasSubstr("go on in view 2")) << "to see who moves";
}

// An evaluation of all the held-out text has more batches than the pace has steps.
TEST(ControllerCore, BatchesOfAnEvaluationAreMovementButNoSteps) {
  Job job = unprotected();
  job.begins().commits(1, 20, 30).evaluates(20, 200, 1).commits(21, 21, 30).did();
  job.wait(30 * 20 - 1);
  EXPECT_EQ(job.did(), "");
  job.wait(2);
  EXPECT_THAT(job.did(), HasSubstr("go on in view 2"));
}

TEST(ControllerCore, WhatIsNoStepMayTakeLong) {
  for (const int64_t step : {int64_t{0}, int64_t{20}, int64_t{60}}) {
    SCOPED_TRACE(step);  // the first step; an evaluation and a checkpoint; the end
    Job job = unprotected();
    job.begins().commits(1, step).did();
    job.wait(599);
    EXPECT_EQ(job.did(), "");
    job.wait(2);
    EXPECT_THAT(job.did(), HasSubstr("go on in view 2"));
  }
}

TEST(ControllerCore, ALostNodeIsOneFailureAndASpareTakesOver) {
  ControllerOptions options = Job::unprotected();
  options.spares = 1;
  Job job(options);
  job.begins().commits(1, 5).did();
  job.loses_node(0).wait(0.5);
  EXPECT_EQ(
      job.did(),
      "start 0.0 on 1, start 0.1 on 1, start 1.0 on 1, start 1.1 on 1, restart all in view 2");
  EXPECT_THAT(job.said(), Not(HasSubstr("restart 2 of")));
}

// Whatever happens, a job whose workers fail without progress comes to its end.
TEST(ControllerCore, RandomFailuresAlwaysComeToAnEnd) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Job job = unprotected();
    int failures = 0;
    for (; failures < 200 && !job.has_ended(); ++failures) {
      const int victim = static_cast<int>(random() % 4);
      switch (random() % 5) {
        case 0: job.worker(victim).dies(); break;
        case 1: job.worker(victim).stops().wait(6); break;
        case 2: job.worker(victim).accuses(static_cast<int>(random() % 4)); break;
        case 3: job.worker(victim).leaves(); break;
        case 4: job.worker(victim).dies().worker(static_cast<int>(random() % 4)).dies(); break;
      }
      job.wait(static_cast<double>(random() % 30) / 10);
    }
    EXPECT_TRUE(job.has_ended());
    EXPECT_LE(failures, 60);
    EXPECT_FALSE(job.end().ok);
  }
}

}  // namespace
}  // namespace evermoe
