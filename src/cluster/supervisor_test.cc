// The supervisor against real processes, real SIGKILL and real SIGSTOP (testing/scripted_worker.cc).
#include "cluster/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "cluster/output_lock.h"
#include "cluster/signal_inbox.h"
#include "corpus/test_folder.h"

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SupervisedJob : public RunObserver {
 public:
  explicit SupervisedJob(int world_size = 3) {
    options_.program = EVERMOE_BINARY_DIR "/tests_bin/scripted_worker";
    options_.out = folder_.root();
    options_.arguments = {"worker", "--out", folder_.root()};
    for (int rank = 0; rank < world_size; ++rank) {
      options_.core.blame.role_names.push_back("0." + std::to_string(rank));
    }
    options_.core.blame.alive_timeout = absl::Seconds(2);
    options_.core.backoff = absl::Milliseconds(10);
  }

  SupervisedJob& script(const std::string& text) {
    std::istringstream lines(text);
    for (std::string word; lines >> word;) {
      if (word == "steps") lines >> options_.core.steps.value;
    }
    folder_.write("script", text);
    return *this;
  }
  // Called once, on the supervisor's thread, when rank 0 has committed this step.
  SupervisedJob& at_step(int64_t step, std::function<void()> act) {
    at_step_[step] = std::move(act);
    return *this;
  }
  SupervisedJob& at_first(const std::string& line, std::function<void()> act) {
    at_line_[line] = std::move(act);
    return *this;
  }

  RunOutcome run() {
    const auto outcome = supervise(real_files(), real_clock(), options_, *this);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(workers(), nlohmann::json::object()) << "nobody is left";
    return *outcome;
  }

  nlohmann::json workers() const { return nlohmann::json::parse(TestFolder::read(folder_.path("workers.json"))); }
  pid_t pid(const std::string& role) const { return workers().at(role).get<pid_t>(); }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  const std::vector<std::string>& logged() const { return logged_; }
  SupervisorOptions& options() { return options_; }
  std::string file(const std::string& name) const { return TestFolder::read(folder_.path(name)); }

  void on_say(const std::string& line) override {
    said_.push_back(line);
    for (auto& [start, act] : at_line_) {
      if (line.find(start) != std::string::npos) std::exchange(act, [] {})();
    }
  }
  void on_report(const WorkerReport& report) override {
    if (report.kind != Kind::kStep) return;
    if (const auto at = at_step_.find(report.step.value); at != at_step_.end()) std::exchange(at->second, [] {})();
  }
  void on_log(const std::string& role, const std::string&, const std::vector<std::string>& lines) override {
    for (const std::string& line : lines) logged_.push_back(role + ": " + line);
  }

 private:
  TestFolder folder_;
  SupervisorOptions options_;
  std::map<int64_t, std::function<void()>> at_step_;
  std::map<std::string, std::function<void()>> at_line_;
  std::vector<std::string> said_;
  std::vector<std::string> logged_;
};

bool lives(pid_t pid) { return ::kill(pid, 0) == 0; }

// Also of a process that is nobody's child any more.
bool ends(int pidfd, absl::Duration timeout) {
  pollfd waiting{pidfd, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
}

TEST(Supervisor, AnUndisturbedJobFinishes) {
  SupervisedJob job;
  nlohmann::json during;
  const RunOutcome outcome = job.script("steps 20").at_step(10, [&] { during = job.workers(); }).run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.steps, Step(20));
  EXPECT_EQ(outcome.restarts, 0);
  EXPECT_THAT(outcome.failures, IsEmpty());
  EXPECT_EQ(job.file("published"), "20");
  EXPECT_EQ(during.size(), 3u);
  EXPECT_THAT(job.said(), HasSubstr("3 workers are ready"));
}

TEST(Supervisor, AKilledWorkerIsNamedAndAllStartAgain) {
  SupervisedJob job;
  const RunOutcome outcome = job.script("steps 20\n0 1 8 die").run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
  EXPECT_EQ(outcome.restarts, 1);
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_THAT(outcome.failures[0].roles, ElementsAre("0.1"));
  EXPECT_EQ(outcome.failures[0].kind, "killed by signal 9 (Killed)");
  EXPECT_EQ(outcome.failures[0].restarted_from_step, Step(5));
  EXPECT_GT(outcome.failures[0].seconds_lost, 0);
}

TEST(Supervisor, AWorkerKilledFromOutsideByItsPidInTheFile) {
  SupervisedJob job;
  std::map<std::string, pid_t> before;
  job.script("steps 3000\nevery 500").at_step(700, [&] {
    before = job.workers().get<std::map<std::string, pid_t>>();
    ::kill(job.pid("0.2"), SIGKILL);
  });
  std::map<std::string, pid_t> after;
  job.at_first("restart 1 of", [&] { after = job.workers().get<std::map<std::string, pid_t>>(); });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
  EXPECT_THAT(outcome.failures.at(0).roles, ElementsAre("0.2"));
  EXPECT_EQ(before.size(), 3u);
  EXPECT_THAT(after, IsEmpty()) << "all are gone before the restart";
  for (const auto& [role, pid] : before) EXPECT_FALSE(lives(pid)) << role;
}

TEST(Supervisor, AStoppedWorkerIsHung) {
  SupervisedJob job;
  job.options().core.blame.alive_timeout = absl::Seconds(1);
  const RunOutcome outcome = job.script("steps 20\n0 2 7 stop").run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
  ASSERT_THAT(outcome.failures, SizeIs(1)) << job.said();
  EXPECT_THAT(outcome.failures[0].roles, ElementsAre("0.2"));
  EXPECT_THAT(outcome.failures[0].kind, HasSubstr("hung: no sign of life"));
}

TEST(Supervisor, AStandstillOfLiveWorkersIsNoticed) {
  SupervisedJob job;
  job.options().core.step_deadline = absl::Milliseconds(200);
  job.options().core.standstill_margin = absl::Milliseconds(100);
  const RunOutcome outcome = job.script("steps 20\n0 1 8 stall").run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
  ASSERT_FALSE(outcome.failures.empty());
  EXPECT_THAT(outcome.failures[0].kind, HasSubstr("hung: no step was committed"));
}

TEST(Supervisor, AFailureIsToldWithTheLastLinesOfItsLog) {
  SupervisedJob job;
  const RunOutcome outcome = job.script("steps 20\n0 1 3 fail").run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
  ASSERT_THAT(outcome.failures, SizeIs(1));
  EXPECT_EQ(outcome.failures[0].kind, "exit code 1: the disk is full");
  EXPECT_THAT(job.logged(), ElementsAre("0.1: about to fail"));
}

TEST(Supervisor, EveryKindOfEndIsSurvived) {
  SupervisedJob job;
  const RunOutcome outcome = job.script("steps 40\n0 0 6 crash\n1 1 11 leave\n2 2 16 babble\n3 0 21 die\n3 1 21 die").run();
  EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
  ASSERT_THAT(outcome.failures, SizeIs(4));
  EXPECT_THAT(outcome.failures[0].kind, HasSubstr("killed by signal 6 (Aborted): about to crash"));
  EXPECT_THAT(outcome.failures[1].kind, HasSubstr("ended before its work was done"));
  EXPECT_THAT(outcome.failures[2].kind, HasSubstr("unreadable report: not a worker's report: \"no report"));
}

TEST(Supervisor, RestartsHaveALimit) {
  SupervisedJob job;
  // Before any step is committed: nothing that could count as progress.
  const RunOutcome outcome = job.script("steps 20\n-1 1 1 die").run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.restarts, 3);
  EXPECT_THAT(outcome.failures, SizeIs(4));
  EXPECT_THAT(outcome.reason, HasSubstr("given up after 3 restarts in a row"));
}

TEST(Supervisor, BadInputIsNotTriedAgain) {
  SupervisedJob job;
  const RunOutcome outcome = job.script("steps 20\n0 1 0 refuse").run();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.reason, "data.path: found nothing");
  EXPECT_EQ(outcome.restarts, 0);
}

TEST(Supervisor, AProgramThatDoesNotExistIsAFailureOfEveryAttempt) {
  SupervisedJob job;
  job.options().program = "/does/not/exist";
  job.options().core.restarts_max = 1;
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.reason, HasSubstr("/does/not/exist: cannot execute"));
}

TEST(Supervisor, ASignalDrains) {
  for (const int number : {SIGTERM, SIGINT}) {
    SupervisedJob job;
    const RunOutcome outcome = job.script("steps 1000000000\nevery 1000000000")
                                   .at_step(30, [&] { ::kill(::getpid(), number); })
                                   .run();
    EXPECT_EQ(outcome.status, RunStatus::kDrained) << outcome.reason;
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_GE(outcome.steps, Step(30));
    EXPECT_EQ(job.file("published"), std::to_string(outcome.steps.value)) << "saved before the end";
  }
}

TEST(Supervisor, ASecondSignalQuitsAtOnce) {
  SupervisedJob job;
  job.script("steps 1000000000\nevery 1000000000\n0 1 50 stall").at_step(49, [] { ::kill(::getpid(), SIGINT); });
  job.at_first("once more quits", [] { ::kill(::getpid(), SIGTERM); });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM);
}

TEST(Supervisor, AJobThatDrainedGoesOnWhereItWas) {
  SupervisedJob job;
  job.script("steps 5000\nevery 100000").at_step(30, [] { ::kill(::getpid(), SIGTERM); });
  const RunOutcome first = job.run();
  EXPECT_EQ(first.status, RunStatus::kDrained);
  job.options().core.start = first.steps;
  EXPECT_EQ(job.run().steps, Step(5000));
  EXPECT_THAT(job.said(), HasSubstr("at step " + std::to_string(first.steps.value) + " of 5000"));
}

TEST(Supervisor, RandomKillsOfRandomWorkersAreSurvived) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    SupervisedJob job;
    job.options().core.restarts_max = 100;
    job.script("steps 300\nevery 10");
    std::srand(seed);
    for (int64_t step = 20; step < 300; step += 70) {
      const std::string victim = "0." + std::to_string(std::rand() % 3);
      job.at_step(step + std::rand() % 20, [&job, victim] { ::kill(job.pid(victim), SIGKILL); });
    }
    const RunOutcome outcome = job.run();
    EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason;
    EXPECT_EQ(job.file("published"), "300");
    for (const FailureRecord& failure : outcome.failures) EXPECT_EQ(failure.kind, "killed by signal 9 (Killed)");
  }
}

TEST(SignalInbox, WhoIgnoresTheEndOfItsTerminalGoesOnIgnoringIt) {
  for (const bool ignored : {true, false}) {
    const auto before = ::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
    {
      const auto inbox = SignalInbox::open();
      ASSERT_TRUE(inbox.ok());
      ::kill(::getpid(), SIGHUP);
      ::kill(::getpid(), SIGINT);
      const std::vector<int> expected = ignored ? std::vector{SIGINT} : std::vector{SIGHUP, SIGINT};
      EXPECT_THAT((*inbox)->take(), ::testing::UnorderedElementsAreArray(expected));
    }
    ::signal(SIGHUP, before);
  }
}

// A supervisor that is killed takes its workers with it, and the folder stays locked until then.
TEST(Supervisor, WorkersDieWithTheirSupervisor) {
  SupervisedJob job;
  job.script("steps 1000000000\nevery 1000000000");
  const std::string lock_path = job.options().out + "/run.lock";
  int step_seen[2];
  ASSERT_EQ(::pipe(step_seen), 0);
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    const auto lock = OutputLock::acquire(lock_path, absl::ZeroDuration());
    job.options().kept_fd = (*lock)->fd();
    job.at_step(5, [&] { (void)!::write(step_seen[1], "x", 1); });
    job.run();
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(step_seen[0], &byte, 1), 1);
  const auto refused = OutputLock::acquire(lock_path, absl::Seconds(30));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("process " + std::to_string(supervisor)));
  std::vector<int> workers;
  for (const auto& [role, pid] : job.workers().get<std::map<std::string, pid_t>>()) {
    workers.push_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    ASSERT_GE(workers.back(), 0) << role;
  }
  EXPECT_THAT(workers, SizeIs(3));
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  // Free when the last worker is gone.
  const auto taken = OutputLock::acquire(lock_path, absl::Seconds(30));
  EXPECT_TRUE(taken.ok()) << taken.status();
  for (const int worker : workers) {
    EXPECT_TRUE(ends(worker, absl::Seconds(30)));
    ::close(worker);
  }
  ::close(step_seen[0]);
  ::close(step_seen[1]);
}

}  // namespace
}  // namespace evermoe
