// A protected job of real processes that a test disturbs while it runs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/control_options.h"
#include "control/launch/protected_run.h"
#include "data/folder_testing.h"

namespace evermoe {

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
    const auto outcome = run_protected(*files_, clock_, options_, *this);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_THAT(pids(), testing::IsEmpty()) << "nobody is left";
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
      if (text.empty()) continue;
      const auto json = nlohmann::json::parse(text);
      for (const auto& [name, value] : json.items()) {
        pids[name] = value.get<pid_t>();
      }
    }
    return pids;
  }
  const Pids& before() const { return before_; }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  std::string log(const std::string& name) const {
    return TestFolder::read(folder_.path("logs/" + name + ".log"));
  }
  ProtectedRunOptions& options() { return options_; }
  void use(Files& files) { files_ = &files; }
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
  Files* files_ = &real_files();
  ForwardClock clock_;
  ProtectedRunOptions options_;
  std::map<int64_t, std::function<void()>> at_step_;
  std::map<std::string, std::function<void()>> at_line_;
  std::vector<std::string> said_;
  Pids before_;
};

// Of a job that is left alone; it runs once for each number of steps.
inline std::string digest_of_undisturbed(int64_t steps = 60) {
  static std::map<int64_t, std::string> digests;
  if (!digests.contains(steps)) {
    ProtectedJob job(steps);
    const RunOutcome outcome = job.run();
    EXPECT_EQ(outcome.status, RunStatus::kFinished) << outcome.reason << "\n" << job.said();
    digests[steps] = job.digest();
    EXPECT_THAT(digests[steps], testing::SizeIs(32));
  }
  return digests[steps];
}

}  // namespace evermoe
