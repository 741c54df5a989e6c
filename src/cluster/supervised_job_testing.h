// The language of the supervisor core's tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/supervisor_core.h"

namespace evermoe {

// A job of 2 stages x 2 lanes whose workers do what the test says, in invented time. Workers that
// are not silenced report that they are alive every quarter of a second.
class SupervisedJob {
 public:
  using Kind = WorkerReport::Kind;

  explicit SupervisedJob(SupervisorCoreOptions options = defaults()) : core_(options) {}

  static SupervisorCoreOptions defaults() {
    SupervisorCoreOptions options;
    options.blame.role_names = {"0.0", "0.1", "1.0", "1.1"};
    options.steps = Step(60);
    options.checkpoint_every_steps = 20;
    options.evaluate_every_steps = 20;
    return options;
  }

  SupervisedJob& tick() { return send(Tick{}); }
  SupervisedJob& start() { return pass(now_); }
  // Starts the next attempt and brings all workers to `step`.
  SupervisedJob& ready(int64_t step = 0) { return ready_but_for_last(step).last_ready(step); }
  SupervisedJob& ready_but_for_last(int64_t step) {
    pass(start_at());
    for (int rank = 0; rank < 3; ++rank) report(Kind::kReady, rank, step);
    return tick();
  }
  SupervisedJob& last_ready(int64_t step) { return report(Kind::kReady, 3, step).tick(); }
  SupervisedJob& steps(int64_t first, int64_t last, double seconds_each = 0.1) {
    for (int64_t step = first; step <= last; ++step) {
      pass(now_ + absl::Seconds(seconds_each));
      report(Kind::kStep, 0, step).tick();
    }
    return *this;
  }
  SupervisedJob& published(int64_t step) { return report(Kind::kPublished, 0, step).tick(); }
  SupervisedJob& evaluated(int64_t step) { return report(Kind::kEvaluated, 0, step).tick(); }
  SupervisedJob& killed(int rank, int signal = SIGKILL) {
    ended_.insert(rank);
    return send(WorkerExited{Rank(rank), ExitStatus{0, signal}, ""});
  }
  SupervisedJob& exits(int rank, int code, std::string last_words = "") {
    ended_.insert(rank);
    return send(WorkerExited{Rank(rank), ExitStatus{code, 0}, std::move(last_words)});
  }
  SupervisedJob& fails(int rank, std::string text, std::optional<int> accused = std::nullopt, bool bad_input = false) {
    WorkerReport report;
    report.kind = Kind::kFailed;
    report.rank = Rank(rank);
    report.text = std::move(text);
    if (accused) report.accused = Rank(*accused);
    report.bad_input = bad_input;
    return send(WorkerReported{report});
  }
  SupervisedJob& says_finished(int64_t step, bool drained = false) {
    for (int rank = 0; rank < 4; ++rank) {
      WorkerReport report;
      report.kind = Kind::kFinished;
      report.rank = Rank(rank);
      report.step = Step(step);
      report.drained = drained;
      send(WorkerReported{report});
    }
    return tick();
  }
  SupervisedJob& finish_all(int64_t step, bool drained = false) {
    says_finished(step, drained);
    for (int rank = 0; rank < 4; ++rank) exits(rank, 0);
    return tick();
  }
  SupervisedJob& silence(int rank) {
    silent_.insert(rank);
    return *this;
  }
  SupervisedJob& signal(int number) { return send(SignalReceived{number}).tick(); }
  // What the shell does after KillAll: every process that still runs ends by SIGKILL.
  SupervisedJob& all_die() {
    for (int rank = 0; rank < 4; ++rank) {
      if (!ended_.contains(rank)) killed(rank);
    }
    return tick();
  }
  SupervisedJob& wait(double seconds) { return pass(now_ + absl::Seconds(seconds)); }
  SupervisedJob& jump(double seconds) {
    now_ += absl::Seconds(seconds);
    return tick();
  }

  // The actions since the last call, "say" left out.
  std::string did() {
    std::vector<std::string> names;
    for (const auto& action : std::exchange(actions_, {})) {
      if (const auto* start = std::get_if<StartAll>(&action)) names.push_back(absl::StrCat("start ", start->attempt));
      if (const auto* signal = std::get_if<SignalAll>(&action)) names.push_back(absl::StrCat("signal ", signal->signal));
      if (std::holds_alternative<KillAll>(action)) names.push_back("kill");
      if (const auto* log = std::get_if<ShowLog>(&action)) names.push_back(absl::StrCat("log ", log->rank.value));
      if (const auto* finish = std::get_if<Finish>(&action)) {
        names.push_back(absl::StrCat(to_string(finish->status), " ", finish->exit_code));
        reason_ = finish->reason;
      }
    }
    return absl::StrJoin(names, ", ");
  }
  const std::string& reason() const { return reason_; }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  const FailureRecord& failure() const { return core_.failures().back(); }
  const SupervisorCore& core() const { return core_; }
  double now() const { return absl::ToDoubleSeconds(now_); }

 private:
  SupervisedJob& send(const SupervisorEvent& event) {
    if (over_) return *this;
    for (auto& action : core_.step(now_, event)) {
      if (std::holds_alternative<StartAll>(action)) ended_.clear(), silent_.clear();
      if (const auto* say = std::get_if<Say>(&action)) said_.push_back(say->line);
      over_ = over_ || std::holds_alternative<Finish>(action);
      actions_.push_back(std::move(action));
    }
    return *this;
  }
  SupervisedJob& report(Kind kind, int rank, int64_t step) {
    WorkerReport report;
    report.kind = kind;
    report.rank = Rank(rank);
    report.step = Step(step);
    return send(WorkerReported{report});
  }
  absl::Duration start_at() const { return std::max(now_, core_.next_deadline()); }
  SupervisedJob& pass(absl::Duration until) {
    while (now_ < until && !over_) {
      now_ = std::min(until, now_ + absl::Milliseconds(250));
      for (int rank = 0; rank < 4; ++rank) {
        if (!ended_.contains(rank) && !silent_.contains(rank) && started_) report(Kind::kAlive, rank, 0);
      }
      tick();
    }
    if (!started_) {
      started_ = true;
      tick();
    }
    return *this;
  }

  SupervisorCore core_;
  absl::Duration now_ = absl::Seconds(1000);
  bool started_ = false;
  bool over_ = false;
  std::set<int> ended_;
  std::set<int> silent_;
  std::vector<SupervisorAction> actions_;
  std::vector<std::string> said_;
  std::string reason_;
};

}  // namespace evermoe
