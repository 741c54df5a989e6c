// Nobody is taken for lost because he gets no processor; who really stands still is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/controlled_job_testing.h"
#include "control/controller/relay/controller_relay_testing.h"
#include "control/controller/stalls/lateness.h"
#include "control/controller/stalls/starvation.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Job = ControlledJob;

absl::Duration s(double seconds) { return absl::Seconds(seconds); }

// ---- what is measured

TEST(LatenessTest, TimersOfAMachineThatIsInOrderAddNothing) {
  Lateness lateness(s(2));
  EXPECT_EQ(lateness.allowance(s(0), s(3)), s(0));
  lateness.note(s(1), s(0.25));
  EXPECT_EQ(lateness.allowance(s(1), s(3)), s(0));
}

TEST(LatenessTest, WhatWasLateCountsForAWhileAndNotForEver) {
  Lateness lateness(s(2));
  lateness.note(s(10), s(1));
  lateness.note(s(11), s(0.1));
  EXPECT_GT(lateness.allowance(s(11), s(3)), s(5)) << "the newest timer was in time, by chance";
  EXPECT_EQ(lateness.at(s(25)), s(0.5));
  EXPECT_EQ(lateness.allowance(s(25), s(3)), Lateness::kHops * s(0.25));
  EXPECT_EQ(lateness.allowance(s(60), s(3)), s(0));
}

TEST(LatenessTest, AStandstillIsOverAndSaysNothingOfWhatFollows) {
  Lateness lateness(s(2));
  lateness.note(s(30), s(20));
  EXPECT_EQ(lateness.allowance(s(30), s(3)), s(0));
}

TEST(LatenessTest, NoLimitGrowsWithoutEnd) {
  Lateness lateness(absl::Hours(1));
  lateness.note(s(30), s(1000));
  EXPECT_EQ(lateness.allowance(s(30), s(3)), (kStallFactorMax - 1) * s(3));
}

TEST(StarvationTest, GrowsOverAllProcessesAndIsCountedInPeriods) {
  Starvation starvation;
  starvation.on_start();
  starvation.on_report(s(2), 1);
  starvation.on_report(s(3), 1);
  EXPECT_EQ(starvation.since(1), s(3));
  EXPECT_EQ(starvation.since(2), s(0)) << "nothing has been reported in it";
  starvation.on_start();
  starvation.on_report(s(4), 2);
  EXPECT_EQ(starvation.since(2), s(4));
  EXPECT_EQ(starvation.total(), s(7));
}

TEST(StarvationTest, OfAProcessThatIsMetOnlyWhatFollowsCounts) {
  Starvation starvation;
  starvation.on_unknown();
  starvation.on_report(s(1000), 1);
  EXPECT_EQ(starvation.total(), s(0));
  starvation.on_report(s(1001), 1);
  EXPECT_EQ(starvation.total(), s(1));
}

TEST(StarvedGrantTest, WhatIsGrantedMayBeStarvedToo) {
  StarvedGrant grant;
  grant.begin(s(100));
  EXPECT_EQ(grant.take(s(108), s(10)), s(8));
  EXPECT_EQ(grant.take(s(114), s(10)), s(6));
  EXPECT_EQ(grant.take(s(114), s(10)), s(0)) << "it had a processor all the time";
  EXPECT_EQ(grant.take(s(1000), s(10)), (kStallFactorMax - 1) * s(10) - s(14)) << "the bound";
  EXPECT_EQ(grant.take(s(2000), s(10)), s(0));
}

// ---- whom a controller takes for lost; limits as in ControllerOptions: silence 5 s, step 60 s

ControllerOptions options() { return Job::unprotected(); }

TEST(Stalls, AWorkerThatGetsNoProcessorIsNotSilent) {
  Job job(options());
  job.begins().commits(1, 2).worker(1).stops().worker(1).is_starved(1).wait(30);
  EXPECT_EQ(job.core().recoveries().size(), 0u) << job.said();
}

TEST(Stalls, ButNotForEver) {
  Job job(options());
  job.begins().commits(1, 2).worker(1).stops().worker(1).is_starved(1).did();
  job.wait(99);
  EXPECT_EQ(job.did(), "");
  job.wait(3);
  EXPECT_THAT(job.did(), HasSubstr("kill 0.1"));
  EXPECT_THAT(job.said(), HasSubstr("hung: no sign of life for 1m40s"));
}

// Beside others that are starved.
TEST(Stalls, AStoppedWorkerIsFoundAsFastAsEver) {
  Job job(options());
  job.begins().commits(1, 2).worker(0).is_starved(1).worker(1).stops().did();
  job.wait(4.7);
  EXPECT_EQ(job.did(), "");
  job.wait(0.9);
  EXPECT_EQ(job.did(), "kill 0.1, start 0.1, restart all in view 2");
}

TEST(Stalls, WhereTimersAreLateSignsOfLifeMayBe) {
  Job job(options());
  job.begins().commits(1, 2).timers_are_late(1).wait(1).worker(1).stops().wait(10);
  EXPECT_EQ(job.core().recoveries().size(), 0u) << job.said();
  job.wait(3);
  EXPECT_THAT(job.recovery().causes, testing::ElementsAre(HasSubstr("0.1: hung: no sign of life")));
}

TEST(Stalls, StepsThatAreSlowBecauseNobodyGetsAProcessorAreNoStandstill) {
  Job job(options());
  job.begins().commits(1, 20).did();
  for (int rank = 0; rank < Job::kWorkers; ++rank) job.worker(rank).is_starved(0.9);
  job.commits(21, 23, 500);
  EXPECT_EQ(job.did(), "") << job.said();
}

TEST(Stalls, WhoGetsNoProcessorMayTakeLongerInAProbe) {
  ControllerOptions limits = options();
  limits.step_max = s(2);
  limits.probe_min = s(1);
  Job job(limits);
  job.begins().commits(1, 21).worker(2).hangs().worker(3).hangs();
  job.worker(2).is_starved(0.8).worker(3).is_starved(0.8).did();
  job.wait(11);
  EXPECT_EQ(job.did(), "go on in view 2") << "after 2 s / 0.2";
  job.wait(3.5);
  EXPECT_EQ(job.did(), "") << "1 s / 0.2 are not over";
  job.wait(2.5);
  EXPECT_THAT(job.did(), HasSubstr("kill 1.0, kill 1.1"));
}

TEST(Stalls, AReportMayTakeLonger) {
  ControllerOptions limits = options();
  limits.report_max = s(1);
  Job job(limits);
  job.begins().commits(1, 2).worker(1).stops().worker(1).is_starved(0.9).did();
  job.worker(0).breaks_off().wait(5);
  EXPECT_THAT(job.did(), Not(HasSubstr("kill 0.1"))) << job.said();
  job.wait(30);
  EXPECT_THAT(job.did(), HasSubstr("kill 0.1"));
}

// ---- nodes

TEST(Stalls, AnAgentWhoseTimersAreLateMayBeSilentForLonger) {
  for (const bool is_late : {false, true}) {
    TestRelay relay;
    relay.job_runs().hears(2, Beat{.late = is_late ? s(1.5) : s(0)}).falls_silent(2).wait(10.9);
    const std::string did = relay.did();
    EXPECT_EQ(did.find("cut 2") == std::string::npos, is_late) << did;
    relay.wait(10);
    EXPECT_EQ(relay.did().find("cut 2") != std::string::npos, is_late) << "now it is lost";
  }
}

}  // namespace
}  // namespace evermoe
