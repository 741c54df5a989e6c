// How often a controller starts a job again, and what counts as progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

using Job = ControlledJob;

Job restarted_job() { return Job(Job::unprotected()); }

TEST(ControllerRestarts, RestartsWithoutProgressAreLimited) {
  Job job = restarted_job();
  job.begins().commits(1, 5);
  for (int i = 0; i < 3; ++i) job.worker(0).dies().wait(1).commits(1, 5);
  job.did();
  job.worker(0).dies("exit code 1: the disk is full");
  EXPECT_EQ(job.did(), "kill 0.1, kill 1.0, kill 1.1, fail");
  EXPECT_EQ(job.end().reason,
            "given up after 3 restarts in a row without progress beyond step 5 (run.restarts_max); "
            "the last failure: "
            "worker 0.0: exit code 1: the disk is full");
  EXPECT_EQ(job.recovery().restarts, 3);
}

TEST(ControllerRestarts, DifferentWorkersThatDieInTurnsAreLimitedTogether) {
  Job job = restarted_job();
  job.begins().commits(1, 5);
  for (int i = 0; i < 3; ++i) job.worker(i).dies().wait(1).commits(1, 3);
  job.worker(3).dies();
  EXPECT_TRUE(job.has_ended());
}

// Nobody comes so far that there could be a plan.
TEST(ControllerRestarts, AWorkerThatDiesAtOnceIsGivenUp) {
  Job job = restarted_job();
  for (int i = 0; i < 4; ++i) job.worker(1).dies("cannot be started: no such file").wait(1);
  EXPECT_TRUE(job.has_ended());
  EXPECT_THAT(job.end().reason, HasSubstr("given up after 3 restarts in a row"));
  EXPECT_THAT(job.end().reason, HasSubstr("worker 0.1: cannot be started: no such file"));
}

TEST(ControllerRestarts, ProgressForgivesEarlierRestarts) {
  Job job = restarted_job();
  job.begins();
  for (int i = 1; i <= 20; ++i) job.commits(1, i).worker(0).dies().wait(1);
  EXPECT_FALSE(job.has_ended()) << job.end().reason;
}

TEST(ControllerRestarts, ANewerCheckpointIsProgressToo) {
  Job job = restarted_job();
  job.begins().commits(1, 30);
  for (int i = 1; i <= 20; ++i) job.worker(0).dies().saves(i).wait(1).commits(i + 1, i + 1);
  EXPECT_FALSE(job.has_ended()) << job.end().reason;
}

TEST(ControllerRestarts, TheSameCheckpointIsNone) {
  Job job = restarted_job();
  job.begins().commits(1, 30).saves(20);
  for (int i = 1; i <= 4; ++i) job.worker(0).dies().wait(1).commits(21, 25);
  EXPECT_TRUE(job.has_ended());
}

TEST(ControllerRestarts, BackOffDoubles) {
  Job job = restarted_job();
  job.begins().commits(1, 5);
  std::vector<double> delays;
  for (int i = 0; i < 3; ++i) {
    job.worker(0).dies();
    delays.push_back(absl::ToDoubleSeconds(job.core().next_deadline()) - job.now());
    job.wait(1);
  }
  EXPECT_THAT(delays, ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.2, 0.4, 0.8}));
}

TEST(ControllerRestarts, WithoutRestartsTheFirstFailureIsTheLast) {
  ControllerOptions options = Job::unprotected();
  options.restarts_max = 0;
  Job job(options);
  job.begins().did();
  job.worker(0).dies();
  EXPECT_EQ(job.did(), "kill 0.1, kill 1.0, kill 1.1, fail");
}

// A broken connection between live workers, again and again.
TEST(ControllerRestarts, RestartsWithoutALossAreLimitedToo) {
  Job job = restarted_job();
  job.begins().commits(1, 5).did();
  job.worker(0).breaks_off().wait(1);
  EXPECT_EQ(job.did(), "restart all in view 2");
  for (int i = 0; i < 3; ++i) job.commits(1, 5).worker(0).breaks_off().wait(1);
  EXPECT_TRUE(job.has_ended());
  EXPECT_THAT(job.end().reason, HasSubstr("given up after 3 restarts in a row"));
}

}  // namespace
}  // namespace evermoe
