#include "cluster/supervisor_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job of 2 stages x 2 lanes whose workers do what the test says, in invented time. Workers that
// are not silenced report that they are alive every quarter of a second.
class Job {
 public:
  explicit Job(SupervisorCoreOptions options = defaults()) : core_(options) {}

  static SupervisorCoreOptions defaults() {
    SupervisorCoreOptions options;
    options.blame.role_names = {"0.0", "0.1", "1.0", "1.1"};
    options.steps = Step(60);
    options.checkpoint_every_steps = 20;
    options.evaluate_every_steps = 20;
    return options;
  }

  Job& tick() { return send(Tick{}); }
  Job& start() { return pass(now_); }
  // Starts the next attempt and brings all workers to `step`.
  Job& ready(int64_t step = 0) { return ready_but_for_last(step).last_ready(step); }
  Job& ready_but_for_last(int64_t step) {
    pass(start_at());
    for (int rank = 0; rank < 3; ++rank) report(Kind::kReady, rank, step);
    return tick();
  }
  Job& last_ready(int64_t step) { return report(Kind::kReady, 3, step).tick(); }
  Job& steps(int64_t first, int64_t last, double seconds_each = 0.1) {
    for (int64_t step = first; step <= last; ++step) {
      pass(now_ + absl::Seconds(seconds_each));
      report(Kind::kStep, 0, step).tick();
    }
    return *this;
  }
  Job& published(int64_t step) { return report(Kind::kPublished, 0, step).tick(); }
  Job& evaluated(int64_t step) { return report(Kind::kEvaluated, 0, step).tick(); }
  Job& killed(int rank, int signal = SIGKILL) {
    ended_.insert(rank);
    return send(WorkerExited{Rank(rank), ExitStatus{0, signal}, ""});
  }
  Job& exits(int rank, int code, std::string last_words = "") {
    ended_.insert(rank);
    return send(WorkerExited{Rank(rank), ExitStatus{code, 0}, std::move(last_words)});
  }
  Job& fails(int rank, std::string text, std::optional<int> accused = std::nullopt, bool bad_input = false) {
    WorkerReport report;
    report.kind = Kind::kFailed;
    report.rank = Rank(rank);
    report.text = std::move(text);
    if (accused) report.accused = Rank(*accused);
    report.bad_input = bad_input;
    return send(WorkerReported{report});
  }
  Job& says_finished(int64_t step, bool drained = false) {
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
  Job& finish_all(int64_t step, bool drained = false) {
    says_finished(step, drained);
    for (int rank = 0; rank < 4; ++rank) exits(rank, 0);
    return tick();
  }
  Job& silence(int rank) {
    silent_.insert(rank);
    return *this;
  }
  Job& signal(int number) { return send(SignalReceived{number}).tick(); }
  // What the shell does after KillAll: every process that still runs ends by SIGKILL.
  Job& all_die() {
    for (int rank = 0; rank < 4; ++rank) {
      if (!ended_.contains(rank)) killed(rank);
    }
    return tick();
  }
  Job& wait(double seconds) { return pass(now_ + absl::Seconds(seconds)); }
  Job& jump(double seconds) {
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
  Job& send(const SupervisorEvent& event) {
    if (over_) return *this;
    for (auto& action : core_.step(now_, event)) {
      if (std::holds_alternative<StartAll>(action)) ended_.clear(), silent_.clear();
      if (const auto* say = std::get_if<Say>(&action)) said_.push_back(say->line);
      over_ = over_ || std::holds_alternative<Finish>(action);
      actions_.push_back(std::move(action));
    }
    return *this;
  }
  Job& report(Kind kind, int rank, int64_t step) {
    WorkerReport report;
    report.kind = kind;
    report.rank = Rank(rank);
    report.step = Step(step);
    return send(WorkerReported{report});
  }
  absl::Duration start_at() const { return std::max(now_, core_.next_deadline()); }
  Job& pass(absl::Duration until) {
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

TEST(SupervisorCore, AnUndisturbedRunFinishes) {
  Job job;
  job.ready().steps(1, 60).evaluated(60).published(60).finish_all(60);
  EXPECT_EQ(job.did(), "start 0, finished 0");
  EXPECT_EQ(job.core().newest_step(), Step(60));
  EXPECT_EQ(job.core().restarts(), 0);
}

TEST(SupervisorCore, AKilledWorkerStopsTheOthersAtOnceAndAllStartAgain) {
  Job job;
  job.ready().steps(1, 20).published(20).steps(21, 25);
  job.did();
  job.killed(2).tick();
  EXPECT_EQ(job.did(), "log 2, kill");
  job.all_die();
  EXPECT_EQ(job.did(), "") << "not before the back-off is over";
  job.ready(20).steps(21, 60).published(60).finish_all(60);
  EXPECT_EQ(job.did(), "start 1, finished 0");
  EXPECT_EQ(job.core().restarts(), 1);
  EXPECT_THAT(job.said(), HasSubstr("worker 1.0 at step 25: killed by signal 9"));
  EXPECT_THAT(job.said(), HasSubstr("from the newest good checkpoint (step 20)"));
}

TEST(SupervisorCore, AFailureIsRecordedWithItsCost) {
  Job job;
  job.ready().steps(1, 25).killed(1).tick().all_die();
  job.ready(20).steps(21, 25).steps(26, 60).finish_all(60);
  const FailureRecord& failure = job.failure();
  EXPECT_THAT(failure.roles, ElementsAre("0.1"));
  EXPECT_EQ(failure.kind, "killed by signal 9 (Killed)");
  EXPECT_EQ(failure.step, Step(25));
  EXPECT_EQ(failure.accused, std::nullopt);
  EXPECT_EQ(failure.restarted_from_step, Step(20));
  EXPECT_NEAR(failure.seconds_lost, 0.2 + 5 * 0.1, 1e-6) << "back-off and five steps done again";
  std::vector<std::string> moments;
  for (const auto& moment : failure.timeline) moments.push_back(moment.what);
  EXPECT_THAT(moments, ElementsAre("noticed", "all stopped", "started again", "ready", "caught up"));
}

TEST(SupervisorCore, AStepMayBeHeardOfBeforeTheLastWorkerIsReady) {
  Job job;
  job.ready().steps(1, 25).killed(1).tick().all_die();
  job.ready_but_for_last(20).steps(21, 23).last_ready(20).steps(24, 60).finish_all(60);
  EXPECT_EQ(job.failure().restarted_from_step, Step(20));
  EXPECT_THAT(job.said(), HasSubstr("at step 20 of 60"));
}

TEST(SupervisorCore, WhoReportsALostPeerIsNotTheCause) {
  Job job;
  job.ready().steps(1, 3);
  job.fails(0, "peer lost", 2).exits(0, 1).tick();
  EXPECT_EQ(job.did(), "start 0") << "the evidence is uncertain: wait";
  job.wait(0.1).killed(2).tick();
  EXPECT_EQ(job.did(), "log 2, kill");
  EXPECT_THAT(job.failure().roles, ElementsAre("1.0"));
  EXPECT_EQ(job.failure().accused, "1.0");
}

TEST(SupervisorCore, TheGraceEnds) {
  Job job;
  job.ready().steps(1, 3);
  job.did();
  job.fails(3, "the disk is full").exits(3, 1).tick().wait(0.15);
  EXPECT_EQ(job.did(), "");
  job.wait(0.1);
  EXPECT_EQ(job.did(), "log 3, kill");
  EXPECT_EQ(job.failure().kind, "exit code 1: the disk is full");
}

TEST(SupervisorCore, WhoFailedByItselfComesBeforeThoseWhoAccuse) {
  Job job;
  job.ready().fails(0, "peer lost: 3", 3).fails(1, "peer lost: 0", 0).fails(3, "the disk is full").wait(0.5);
  EXPECT_THAT(job.failure().roles, ElementsAre("1.1"));
  EXPECT_EQ(job.failure().kind, "failed: the disk is full");
}

TEST(SupervisorCore, AccusationsAreFollowedToTheirEnd) {
  Job job;
  job.ready().silence(3).wait(2).fails(0, "timeout: 1", 1).fails(1, "timeout: 3", 3).wait(0.5);
  EXPECT_THAT(job.failure().roles, ElementsAre("1.1"));
  EXPECT_THAT(job.failure().kind, HasSubstr("hung: no sign of life, and accused by worker 0.0"));
}

TEST(SupervisorCore, AccusationsInACircleBlameOneOfIt) {
  Job job;
  job.ready().fails(0, "timeout", 1).fails(1, "timeout", 0).wait(0.5);
  EXPECT_EQ(job.failure().roles.size(), 1u);
}

TEST(SupervisorCore, AnAccusationOfNobodyThatExistsIsHarmless) {
  Job job;
  job.ready().fails(0, "timeout", 17).wait(0.5);
  EXPECT_THAT(job.failure().roles, ElementsAre("0.0"));
}

TEST(SupervisorCore, TwoDeathsInOneBatchAreOneFailure) {
  Job job;
  job.ready().killed(1).killed(3).tick();
  EXPECT_THAT(job.failure().roles, ElementsAre("0.1", "1.1"));
  EXPECT_EQ(job.core().failures().size(), 1u);
}

TEST(SupervisorCore, ASilentWorkerIsHung) {
  Job job;
  job.ready().steps(1, 2).silence(1);
  job.did();
  job.wait(4.9);
  EXPECT_EQ(job.did(), "");
  job.wait(0.2);
  EXPECT_EQ(job.did(), "log 1, kill");
  EXPECT_THAT(job.failure().kind, HasSubstr("hung: no sign of life for 5"));
  EXPECT_THAT(job.failure().roles, ElementsAre("0.1"));
}

TEST(SupervisorCore, BeforeItsFirstReportAWorkerMayTakeLonger) {
  Job job;
  for (int rank = 0; rank < 4; ++rank) job.silence(rank);
  job.tick().wait(100);
  for (int rank = 0; rank < 4; ++rank) job.silence(rank);
  EXPECT_EQ(job.did(), "start 0");
}

TEST(SupervisorCore, WhenTheSupervisorItselfStoodStillNobodyIsAccused) {
  Job job;
  job.ready().steps(1, 2);
  job.did();
  job.jump(1000);
  job.wait(4);
  EXPECT_EQ(job.did(), "");
}

TEST(SupervisorCore, AliveButWithoutStepsIsHung) {
  Job job;
  job.ready().steps(1, 5);
  job.did();
  job.wait(64);
  EXPECT_EQ(job.did(), "");
  job.wait(1.5);
  EXPECT_EQ(job.did(), "kill");
  EXPECT_THAT(job.failure().kind, HasSubstr("no step was committed for 65"));
  EXPECT_TRUE(job.failure().roles.empty());
}

TEST(SupervisorCore, SlowStepsAreNoStandstill) {
  Job job;
  job.ready().steps(1, 10, 30);
  job.did();
  job.wait(30 * 20 - 1);
  EXPECT_EQ(job.did(), "");
  job.wait(10);
  EXPECT_EQ(job.did(), "kill");
}

TEST(SupervisorCore, AnEvaluationMayTakeLong) {
  Job job;
  job.ready().steps(1, 20);
  job.did();
  job.wait(9 * 60);
  EXPECT_EQ(job.did(), "");
  job.wait(66);
  EXPECT_EQ(job.did(), "kill");
}

TEST(SupervisorCore, AWorkerThatIsNeverReadyIsNamed) {
  Job job;
  job.start().wait(10 * 60 + 6);
  EXPECT_EQ(job.did(), "start 0, log 0, log 1, log 2, log 3, kill");
  EXPECT_THAT(job.failure().kind, HasSubstr("not ready"));
}

TEST(SupervisorCore, RestartsWithoutProgressAreLimited) {
  Job job;
  job.ready().steps(1, 5).killed(0).tick().all_die();
  for (int i = 0; i < 3; ++i) job.ready().steps(1, 5).killed(0).tick().all_die();
  EXPECT_THAT(job.did(), HasSubstr("start 3, log 0, kill, failed 1"));
  EXPECT_THAT(job.reason(), HasSubstr("given up after 3 restarts in a row without progress beyond step 5"));
  EXPECT_THAT(job.reason(), HasSubstr("worker 0.0: killed by signal 9"));
  EXPECT_EQ(job.core().failures().size(), 4u);
}

TEST(SupervisorCore, ProgressForgivesEarlierRestarts) {
  Job job;
  job.ready();
  for (int i = 1; i <= 20; ++i) job.steps(1, i).killed(0).tick().all_die().ready();
  EXPECT_EQ(job.core().restarts(), 20);
  job.steps(1, 60).finish_all(60);
  EXPECT_THAT(job.did(), HasSubstr("finished 0"));
}

TEST(SupervisorCore, ACheckpointIsProgressToo) {
  Job job;
  job.ready().steps(1, 30);
  for (int i = 1; i <= 20; ++i) job.killed(0).tick().all_die().ready(i).published(i);
  EXPECT_EQ(job.core().restarts(), 20);
}

TEST(SupervisorCore, BackOffDoubles) {
  Job job;
  job.ready().steps(1, 5);
  std::vector<double> delays;
  for (int i = 0; i < 3; ++i) {
    job.killed(0).tick().all_die();
    delays.push_back(absl::ToDoubleSeconds(job.core().next_deadline()) - job.now());
    job.ready();
  }
  EXPECT_THAT(delays, ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.2, 0.4, 0.8}));
}

TEST(SupervisorCore, WithoutRestartsTheFirstFailureIsTheLast) {
  SupervisorCoreOptions options = Job::defaults();
  options.restarts_max = 0;
  Job job(options);
  job.ready().killed(0).tick().all_die();
  EXPECT_EQ(job.did(), "start 0, log 0, kill, failed 1");
}

TEST(SupervisorCore, BadInputEndsTheRunWithoutRestart) {
  Job job;
  job.tick().fails(1, "peer lost", 0).fails(0, "data.path: no such file", std::nullopt, true).tick().all_die();
  EXPECT_EQ(job.did(), "start 0, kill, failed 2");
  EXPECT_EQ(job.reason(), "data.path: no such file");
  EXPECT_TRUE(job.core().failures().empty());
}

TEST(SupervisorCore, ExitCodeTwoMeansBadInputEvenWithoutAReport) {
  Job job;
  job.tick().exits(0, 2, "--rank: not a number").tick().all_die();
  EXPECT_EQ(job.did(), "start 0, kill, failed 2");
  EXPECT_THAT(job.reason(), HasSubstr("--rank: not a number"));
}

TEST(SupervisorCore, EndingTooEarlyIsAFailure) {
  Job job;
  job.ready().exits(2, 0).wait(0.5);
  EXPECT_EQ(job.did(), "start 0, log 2, kill");
  EXPECT_EQ(job.failure().kind, "ended before its work was done");
}

TEST(SupervisorCore, ACrashBehindTheLastWordIsNoFailure) {
  Job job;
  job.ready().steps(1, 60).says_finished(60).killed(0, SIGSEGV).exits(1, 1).exits(2, 0).exits(3, 0).tick();
  EXPECT_EQ(job.did(), "start 0, finished 0");
  EXPECT_THAT(job.said(), HasSubstr("worker 0.0 had finished its work, then killed by signal 11"));
}

TEST(SupervisorCore, ASpawnThatFailsIsAFailure) {
  SupervisorCore core(Job::defaults());
  core.step(absl::Seconds(1), Tick{});
  for (int rank = 0; rank < 4; ++rank) core.step(absl::Seconds(1), WorkerNotStarted{Rank(rank), "cannot fork"});
  core.step(absl::Seconds(1), Tick{});
  ASSERT_EQ(core.failures().size(), 1u);
  EXPECT_EQ(core.failures()[0].kind, "cannot be started: cannot fork");
}

TEST(SupervisorCore, AnUnreadableReportIsAFailure) {
  SupervisorCore core(Job::defaults());
  core.step(absl::Seconds(1), Tick{});
  core.step(absl::Seconds(1), WorkerUnreadable{Rank(1), "not a report"});
  core.step(absl::Seconds(1), Tick{});
  ASSERT_EQ(core.failures().size(), 1u);
  EXPECT_THAT(core.failures()[0].roles, ElementsAre("0.1"));
}

TEST(SupervisorCore, TheFirstSignalDrains) {
  Job job;
  job.ready().steps(1, 7).signal(SIGINT);
  EXPECT_EQ(job.did(), "start 0, signal 15");
  job.steps(8, 8).published(8).finish_all(8, true);
  EXPECT_EQ(job.did(), "drained 0");
  EXPECT_EQ(job.core().newest_step(), Step(8));
}

TEST(SupervisorCore, TheSecondSignalQuits) {
  Job job;
  job.ready().steps(1, 7).signal(SIGTERM).signal(SIGINT).all_die();
  EXPECT_EQ(job.did(), "start 0, signal 15, kill, failed 130");
}

TEST(SupervisorCore, BeforeAllAreReadyThereIsNothingToDrain) {
  Job job;
  job.tick().signal(SIGTERM).all_die();
  EXPECT_EQ(job.did(), "start 0, kill, drained 0");
}

TEST(SupervisorCore, ASignalEndsTheBackOff) {
  Job job;
  job.ready().killed(0).tick().all_die();
  job.did();
  job.signal(SIGTERM);
  EXPECT_EQ(job.did(), "drained 0");
}

TEST(SupervisorCore, AFailureWhileDrainingIsNotRestarted) {
  Job job;
  job.ready().steps(1, 7).signal(SIGTERM).killed(1).tick().all_die();
  EXPECT_THAT(job.did(), HasSubstr("failed 1"));
  EXPECT_THAT(job.reason(), HasSubstr("failed while stopping"));
}

TEST(SupervisorCore, AWorkerThatSigkillDoesNotEndEndsTheRun) {
  Job job;
  job.ready().killed(0).tick().wait(11);
  EXPECT_THAT(job.did(), HasSubstr("failed 1"));
  EXPECT_THAT(job.reason(), HasSubstr("does not end"));
}

TEST(SupervisorCore, ACheckpointPublishedWhileStoppingCounts) {
  Job job;
  job.ready().steps(1, 20).killed(3).tick().published(20).all_die();
  EXPECT_THAT(job.said(), HasSubstr("(step 20)"));
}

// The same random events at the same times give the same actions, whatever they are, and never
// break the core: between an attempt's start and its end each process ends once.
TEST(SupervisorCore, RandomFailuresAlwaysComeToAnEnd) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::srand(seed);
    Job job;
    std::string did;
    for (int attempt = 0; attempt < 200 && !absl::StrContains(did, "failed 1"); ++attempt) {
      job.ready();
      const int victim = std::rand() % 4;
      switch (std::rand() % 5) {
        case 0: job.killed(victim); break;
        case 1: job.exits(victim, 1, "words"); break;
        case 2: job.fails(victim, "peer lost", std::rand() % 5); break;
        case 3: job.silence(victim).wait(6); break;
        case 4: job.fails(victim, "timeout", std::rand() % 4).killed(std::rand() % 4); break;
      }
      job.wait(0.5).all_die();
      did = job.did();
    }
    EXPECT_THAT(did, HasSubstr("failed 1"));
    EXPECT_EQ(job.core().failures().size(), 4u);
  }
}

}  // namespace
}  // namespace evermoe
