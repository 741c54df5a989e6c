// What a controller does only if its host still has the job.
#include "control/controller/losses/term_confirmation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;
using testing::Not;
using Job = ControlledJob;

ControllerOptions options_with(int nodes_min) {
  ControllerOptions options;
  options.hosts_may_change = true;
  options.nodes = 2;
  options.elastic.is_enabled = nodes_min > 0;
  options.elastic.nodes_min = nodes_min;
  return options;
}

TEST(TermConfirmation, ALostRoleIsStartedWhenTheHostHasSaidThatTheJobIsStillIts) {
  Job job(options_with(0));
  job.begins().commits(1, 5).host_is_silent().did();
  job.worker(0).dies().wait(4);
  EXPECT_EQ(job.did(), "ask the host after loss 1") << "once";
  job.host_answers(0);
  EXPECT_EQ(job.did(), "") << "what it saw before that loss does not count";
  job.host_answers(1).wait(0.1);
  EXPECT_EQ(job.did(), "start 0.0, go on in view 2");
}

// The host may have lost the job between the two.
TEST(TermConfirmation, AnotherLossIsAnotherQuestion) {
  Job job(options_with(0));
  job.begins().commits(1, 5).worker(0).never_comes_up().worker(0).dies().host_is_silent().did();
  job.worker(1).dies();
  EXPECT_EQ(job.did(), "ask the host after loss 2");
  job.host_answers(2);
  EXPECT_EQ(job.did(), "start 0.1");
}

// Shared storage may be out, and the copies in memory are all that a recovery needs.
TEST(TermConfirmation, WhereTheFolderDoesNotAnswerARoleWaitsForAWhileOnly) {
  Job job(options_with(0));
  job.begins().commits(1, 5).host_is_silent().did();
  job.worker(0).dies().wait(4.9);
  EXPECT_EQ(job.did(), "ask the host after loss 1");
  job.wait(0.3);
  EXPECT_EQ(job.did(), "start 0.0, go on in view 2");
}

TEST(TermConfirmation, ButLanesDoNotChangeBefore) {
  Job job(options_with(1));
  job.begins().commits(1, 5).host_is_silent().loses_node(1).wait(1).did();
  job.wait(30);
  EXPECT_EQ(job.did(), "start 1.0, start 1.1");
  job.host_answers(3);
  EXPECT_THAT(job.did(), HasSubstr("in view 2"));
  EXPECT_EQ(job.core().resting().size(), 2U);
}

// All go back to a checkpoint that may leave experts out.
TEST(TermConfirmation, NorDoesALossyRecoveryBegin) {
  ControllerOptions options = options_with(0);
  options.strategy = strategy_of(StrategyKind::kPartialExperts);
  Job job(options);
  job.begins().commits(1, 20).saves(20).host_is_silent().did();
  job.worker(0).dies().wait(30);
  EXPECT_EQ(job.did(), "ask the host after loss 1, start 0.0");
  job.host_answers(1).wait(0.1);
  EXPECT_EQ(job.did(), "restart all in view 2");
}

TEST(TermConfirmation, WhereNoOtherHostCanBeNobodyIsAsked) {
  ControllerOptions options = options_with(0);
  options.hosts_may_change = false;
  Job job(options);
  job.begins().commits(1, 5).host_is_silent().did();
  job.worker(0).dies().wait(0.1);
  EXPECT_EQ(job.did(), "start 0.0, go on in view 2");
}

// Who has lost most nodes may be the one that is cut off.
TEST(TermConfirmation, AJobWithTooFewNodesIsDrainedByItsHostOnly) {
  Job job(options_with(2));
  job.begins().commits(1, 5).host_is_silent().did();
  job.loses_node(1).wait(1);
  EXPECT_THAT(job.did(), Not(HasSubstr("drain")));
  job.host_answers(3).wait(0.2);
  EXPECT_THAT(job.did(), HasSubstr("drain"));
}

}  // namespace
}  // namespace evermoe
