// How a protected run of real processes ends before its job is done: drained, quit, or given up
// because a successor would fare no better.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "protected_job.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(RunEnd, ASignalDrains) {
  for (const int number : {SIGTERM, SIGINT}) {
    ProtectedJob job(1'000'000);
    const RunOutcome outcome = job.at_step(30, [&] { ::kill(::getpid(), number); }).run();
    EXPECT_EQ(outcome.status, RunStatus::kDrained) << outcome.reason << "\n" << job.said();
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_GE(outcome.steps, Step(30));
    EXPECT_THAT(job.digest(), SizeIs(32));
  }
}

// timeout(1) signals its child and then its group.
TEST(RunEnd, SignalsThatComeTogetherAreOne) {
  ProtectedJob job(1'000'000);
  job.at_step(30, [] { ::kill(::getpid(), SIGINT); });
  job.at_line("once more quits", [] { ::kill(::getpid(), SIGINT); });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.status, RunStatus::kDrained) << outcome.reason << "\n" << job.said();
  EXPECT_THAT(job.digest(), SizeIs(32));
}

TEST(RunEnd, ALaterSignalQuitsAtOnce) {
  ProtectedJob job(1'000'000);
  job.at_step(30, [&] {
    ::kill(job.pids().at("1.1"), SIGSTOP);  // the drain has to wait
    ::kill(::getpid(), SIGINT);
  });
  job.at_line("once more quits", [&] {
    job.clock().skip(absl::Milliseconds(1500));
    ::kill(::getpid(), SIGTERM);
  });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM);
}

TEST(RunEnd, BadInputIsNotTriedAgain) {
  ProtectedJob job;
  const RunOutcome outcome =
      job.script("-1 0 0 refuse\n-1 1 0 refuse\n-1 2 0 refuse\n-1 3 0 refuse").run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.reason, "data.path: found nothing");
}

// The input is fine, but nothing comes of it.
TEST(RunEnd, ADivergedJobIsNotTriedAgain) {
  ProtectedJob job;
  const RunOutcome outcome =
      job.script("-1 0 9 diverge\n-1 1 9 diverge\n-1 2 9 diverge\n-1 3 9 diverge").run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.reason, "training diverged");
  EXPECT_THAT(outcome.failures, IsEmpty()) << job.said();
}

TEST(RunEnd, AProgramThatDoesNotExistIsSaid) {
  ProtectedJob job;
  job.options().program = "/does/not/exist";
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.reason, HasSubstr("/does/not/exist: cannot execute"));
}

}  // namespace
}  // namespace evermoe
