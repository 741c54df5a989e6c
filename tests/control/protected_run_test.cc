// Protected jobs of real processes: real SIGKILL and SIGSTOP for workers, agents and the
// controller, and in the end the same bits as the job that was left alone.
#include "control/launch/protected_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/control_options.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Pids = std::map<std::string, pid_t>;

// The real one, which a test can put forward.
class ForwardClock final : public Clock {
 public:
  absl::Duration now() override { return real_clock().now() + ahead_; }
  void sleep_until(absl::Duration deadline) override {
    real_clock().sleep_until(deadline - ahead_);
  }
  absl::Duration thread_time() override { return real_clock().thread_time(); }
  absl::Time wall_now() override { return real_clock().wall_now() + ahead_; }
  void skip(absl::Duration time) { ahead_ += time; }

 private:
  absl::Duration ahead_;
};

// 2 stages x 2 lanes on 2 nodes (a stage each) and a spare one.
class ProtectedJob : public RunObserver {
 public:
  explicit ProtectedJob(int64_t steps = 60) {
    options_.program = EVERMOE_BINARY_DIR "/tests_bin/hash_job";
    options_.out = folder_.root();
    options_.steps = Step(steps);
    options_.worker = options_.program;
    options_.config = folder_.path("config.toml");
    options_.worker_arguments = {"train",     "--config", options_.config, "--out", folder_.root(),
                                 "--step-ms", "5"};
    configure("[train]\nsteps = " + absl::StrCat(steps) +
              "\n[parallel]\nstages = 2\nlanes = 2\n[run]\nnodes = 2\nspares = "
              "1\n[protection]\nheartbeat_seconds = 1.5\n");
  }

  // What the job's processes read, and what the run takes from it.
  ProtectedJob& configure(const std::string& text, const std::vector<std::string>& settings = {}) {
    const auto config = parse_config(text, "test", folder_.root(), settings);
    EXPECT_TRUE(config.ok()) << config.status();
    folder_.write("config.toml", to_toml(*config));
    options_.controller = controller_options(*config);
    options_.agent = agent_options(*config);
    return *this;
  }
  ProtectedJob& set(const std::string& setting) {
    return configure(TestFolder::read(options_.config), {setting});
  }

  // Called once, on the run's thread, when rank 0 has committed this step.
  ProtectedJob& at_step(int64_t step, std::function<void()> act) {
    at_step_[step] = std::move(act);
    return *this;
  }
  ProtectedJob& kill(int64_t step, const std::string& role, int signal = SIGKILL) {
    return at_step(step, [=, this] {
      before_ = pids();
      ::kill(before_.at(role), signal);
    });
  }
  ProtectedJob& script(const std::string& deeds) {
    folder_.write("script", deeds);
    return *this;
  }

  RunOutcome run() {
    const auto outcome = run_protected(real_files(), clock_, options_, *this);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_THAT(pids(), IsEmpty()) << "nobody is left";
    return *outcome;
  }
  // Of all ranks' final states.
  std::string digest() const {
    std::string all;
    for (int rank = 0; rank < 4; ++rank)
      absl::StrAppend(&all,
                      TestFolder::read(folder_.path(absl::StrCat("digest.", rank))).substr(0, 8));
    return all;
  }

  Pids pids() const {
    Pids pids;
    for (const char* const file : {"workers.json", "control.json"}) {
      const std::string text = TestFolder::read(folder_.path(file));
      if (!text.empty()) pids.merge(nlohmann::json::parse(text).get<Pids>());
    }
    return pids;
  }
  const Pids& before() const { return before_; }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  std::string log(const std::string& name) const {
    return TestFolder::read(folder_.path("logs/" + name + ".log"));
  }
  ProtectedRunOptions& options() { return options_; }
  ForwardClock& clock() { return clock_; }  // of the run, not of the processes

  ProtectedJob& at_line(const std::string& line, std::function<void()> act) {
    at_line_[line] = std::move(act);
    return *this;
  }

  void on_say(const std::string& line) override {
    said_.push_back(line);
    for (auto& [part, act] : at_line_) {
      if (line.find(part) != std::string::npos) std::exchange(act, [] {})();
    }
  }
  void on_report(const WorkerReport& report) override {
    if (report.kind != WorkerReport::Kind::kStep) return;
    const auto at = at_step_.find(report.step.value);
    if (at != at_step_.end()) std::exchange(at->second, [] {})();
  }
  void on_log(const std::string& role, const std::string&,
              const std::vector<std::string>& lines) override {
    for (const std::string& line : lines) said_.push_back(absl::StrCat("    ", role, " | ", line));
  }

 private:
  TestFolder folder_;
  ForwardClock clock_;
  ProtectedRunOptions options_;
  std::map<int64_t, std::function<void()>> at_step_;
  std::map<std::string, std::function<void()>> at_line_;
  std::vector<std::string> said_;
  Pids before_;
};

std::string digest_of_undisturbed(int64_t steps = 60) {
  static std::map<int64_t, std::string> digests;
  if (!digests.contains(steps)) {
    ProtectedJob job(steps);
    const RunOutcome outcome = job.run();
    EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
    digests[steps] = job.digest();
    EXPECT_THAT(digests[steps], SizeIs(32));
  }
  return digests[steps];
}

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
  job.set("run.deadline_seconds=2");
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

TEST(ProtectedRun, ASignalDrains) {
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
TEST(ProtectedRun, SignalsThatComeTogetherAreOne) {
  ProtectedJob job(1'000'000);
  job.at_step(30, [] { ::kill(::getpid(), SIGINT); });
  job.at_line("once more quits", [] { ::kill(::getpid(), SIGINT); });
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.status, RunStatus::kDrained) << outcome.reason << "\n" << job.said();
  EXPECT_THAT(job.digest(), SizeIs(32));
}

TEST(ProtectedRun, ALaterSignalQuitsAtOnce) {
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

TEST(ProtectedRun, BadInputIsNotTriedAgain) {
  ProtectedJob job;
  const RunOutcome outcome =
      job.script("-1 0 0 refuse\n-1 1 0 refuse\n-1 2 0 refuse\n-1 3 0 refuse").run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.reason, "data.path: found nothing");
}

// The input is fine, but nothing comes of it.
TEST(ProtectedRun, ADivergedJobIsNotTriedAgain) {
  ProtectedJob job;
  const RunOutcome outcome =
      job.script("-1 0 9 diverge\n-1 1 9 diverge\n-1 2 9 diverge\n-1 3 9 diverge").run();
  EXPECT_EQ(outcome.status, RunStatus::kFailed);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.reason, "training diverged");
  EXPECT_THAT(outcome.failures, IsEmpty()) << job.said();
}

TEST(ProtectedRun, AProgramThatDoesNotExistIsSaid) {
  ProtectedJob job;
  job.options().program = "/does/not/exist";
  const RunOutcome outcome = job.run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.reason, HasSubstr("/does/not/exist: cannot execute"));
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
