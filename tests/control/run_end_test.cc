// How a protected run of real processes ends before its job is done: drained, quit, or given up
// because a successor would fare no better.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "env/faulty_files.h"
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

// Real files, and what happens when one of them gets its name.
class WatchedFiles final : public FaultyFiles {
 public:
  explicit WatchedFiles(std::function<void(const std::string& path)> named)
      : FaultyFiles(real_files(), {}), named_(std::move(named)) {}
  absl::Status rename(const std::string& from, const std::string& to) override {
    const absl::Status status = FaultyFiles::rename(from, to);
    named_(to);
    return status;
  }

 private:
  const std::function<void(const std::string& path)> named_;
};

// There may be thousands of them.
TEST(RunEnd, ASignalIsReadWhileAgentsAreStarted) {
  ProtectedJob job(1'000'000);
  bool is_sent = false;
  WatchedFiles files([&](const std::string& path) {
    if (!path.ends_with("control.json") || is_sent || !job.pids().contains("agent.0")) return;
    is_sent = true;
    ::kill(::getpid(), SIGTERM);
  });
  job.use(files);
  Pids when_read;
  job.at_line("once more quits", [&] {
    when_read = job.pids();
    job.clock().skip(absl::Milliseconds(1500));
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(job.run().exit_code, 128 + SIGTERM);
  EXPECT_TRUE(when_read.contains("agent.0"));
  EXPECT_FALSE(when_read.contains("agent.2")) << "the last one";
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
  EXPECT_EQ(outcome.exit_code, 4);
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
