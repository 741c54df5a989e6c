// Whole runs of real processes with the hash model (tests/control/hash_job.cc) in a real output
// folder; the test itself saves the checkpoints that they claim to have published.
#include "control/launch/job_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/write/folder_term.h"
#include "control/folder/job_folder.h"
#include "data/folder_testing.h"
#include "env/faulty_files.h"
#include "recovery/member/restore/witnesses.h"

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobRun : public RunObserver {
 public:
  JobRun() {
    folder_.write("text.txt", std::string(10'000, 'x'));
    options_.config = *parse_config(
        "[data]\npath = \"text.txt\"\n[train]\nsteps = 20\n[parallel]\nlanes = "
        "2\n[protection]\nstrategy = \"none\"\n",
        "test", folder_.root(), {"run.backoff_seconds=0.01", "checkpoint.every_steps=5"});
    options_.out = folder_.path("out");
    options_.program = options_.worker = EVERMOE_BINARY_DIR "/tests_bin/hash_job";
    real_files().create_directories(options_.out).IgnoreError();
  }

  // tests/control/scripted_trainer.h
  JobRun& script(const std::string& deeds) {
    folder_.write("out/script", deeds);
    return *this;
  }
  absl::StatusOr<RunSummary> try_run() {
    return run_job(real_files(), real_clock(), options_, *this);
  }
  RunSummary run() {
    const auto summary = try_run();
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.value_or(RunSummary());
  }

  JobConfig& config() { return options_.config; }
  void is_hosted_at(const std::string& address) { options_.address = address; }
  std::string out(const std::string& name) const { return folder_.path("out/" + name); }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  void write(const std::string& name, const std::string& content) {
    folder_.write("out/" + name, content);
  }
  std::function<void(const WorkerReport&)> also = [](const WorkerReport&) {};

  JobRun& at_step(int64_t step, std::function<void()> act) {
    also = [=](const WorkerReport& report) {
      if (report.kind == Kind::kStep && report.step == Step(step)) act();
    };
    return *this;
  }

  void save(Step step) {
    SaverOptions options;
    options.directory = out("checkpoints");
    options.compute_type = state_.compute_type;
    auto job = FakeJob::open(real_files(), options);
    ASSERT_TRUE(job.ok()) << job.status();
    TrainingPosition position = state_.position(step);
    position.model_identity = model_identity(config());
    position.validation_loss = 2.5;
    ASSERT_TRUE((*job)->prepare(state_, position, FakeCut::kEven).ok());
    ASSERT_TRUE((*job)->publish(step).ok());
  }
  std::string digest(Step step) const { return to_hex(state_.digest(step)); }

  void on_say(const std::string& line) override { said_.push_back(line); }
  void on_log(const std::string& role, const std::string&,
              const std::vector<std::string>& lines) override {
    for (const std::string& line : lines) said_.push_back(role + " | " + line);
  }
  void on_report(const WorkerReport& report) override {
    if (report.kind == Kind::kPublished) save(report.step);
    also(report);
  }

 private:
  TestFolder folder_;
  JobRunOptions options_;
  FakeState state_;
  std::vector<std::string> said_;
};

TEST(JobRun, AFinishedJobTellsItsDigest) {
  JobRun job;
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFinished) << summary.reason;
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_EQ(summary.steps, Step(20));
  EXPECT_EQ(summary.digest, job.digest(Step(20)));
  EXPECT_EQ(summary.final_loss, 1.0 / 20);
  EXPECT_EQ(summary.checkpoint, job.out("checkpoints/step-00000020"));
  EXPECT_EQ(parse_config(TestFolder::read(job.out("config.toml")), "config.toml", "/", {}).value(),
            job.config());
}

TEST(JobRun, TheJsonHasWhatScriptsRelyOn) {
  JobRun job;
  const auto json = nlohmann::json::parse(to_json(job.script("0 1 8 die").run()));
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["steps"], 20);
  EXPECT_EQ(json["digest"], job.digest(Step(20)));
  EXPECT_EQ(json["restarts"], 1);
  EXPECT_EQ(json["final_loss"], 1.0 / 20);
  EXPECT_EQ(json["validation_loss"], 2.5);
  EXPECT_TRUE(json.contains("tokens_per_s"));
  ASSERT_EQ(json["failures"].size(), 1u);
  EXPECT_EQ(json["failures"][0]["roles"], nlohmann::json::array({"0.1"}));
  EXPECT_EQ(json["failures"][0]["kind"], "killed by signal 9 (Killed)");
  EXPECT_EQ(json["failures"][0]["restarted_from_step"], 5);
  EXPECT_EQ(json["failures"][0]["moments"][0]["what"], "failed");
  EXPECT_EQ(json["failures"][0]["moments"][1]["what"], "noticed");
  EXPECT_EQ(to_json(RunSummary()).find('\n'), std::string::npos);
}

TEST(JobRun, BadInputOfAWorkerIsOneLine) {
  JobRun job;
  const RunSummary summary = job.script("-1 0 0 refuse\n-1 1 0 refuse").run();
  EXPECT_EQ(summary.exit_code, 2);
  EXPECT_EQ(summary.reason, "data.path: found nothing");
  EXPECT_EQ(summary.restarts, 0);
}

TEST(JobRun, EveryKindOfEndIsSurvived) {
  JobRun job;
  job.config().train.steps = 40;
  const RunSummary summary =
      job.script("0 0 6 crash\n0 1 11 leave\n1 1 16 fail\n1 0 21 die\n2 1 21 die").run();
  ASSERT_EQ(summary.status, RunStatus::kFinished) << summary.reason << "\n" << job.said();
  // Whether a failure is a record of its own depends on what was committed again before it.
  std::string causes;
  for (const FailureRecord& failure : summary.failures) {
    ASSERT_TRUE(failure.recovery.has_value());
    absl::StrAppend(&causes, absl::StrJoin(failure.recovery->causes, "\n"), "\n");
  }
  EXPECT_THAT(causes, HasSubstr("0.0: killed by signal 6 (Aborted)"));
  EXPECT_THAT(causes, HasSubstr("0.1: ended before its work was done"));
  EXPECT_THAT(causes, HasSubstr("0.1: exit code 1: the disk is full"));
  EXPECT_THAT(causes, HasSubstr("0.0: killed by signal 9 (Killed)"));
  EXPECT_THAT(job.said(), HasSubstr("0.1 | about to fail"));
}

TEST(JobRun, ADoneJobHasNothingToDo) {
  JobRun job;
  job.run();
  job.write("loss.csv", "step,loss,validation_loss\n19,3,\n20,1.25,\n20,,2.5\n");
  job.also = [](const WorkerReport&) { FAIL() << "no worker is started"; };
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kNothingToDo);
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_EQ(summary.steps, Step(20));
  EXPECT_EQ(summary.digest, job.digest(Step(20)));
  EXPECT_EQ(summary.final_loss, 1.25);
  EXPECT_EQ(summary.validation_loss, 2.5);
}

TEST(JobRun, MoreStepsGoOnFromTheCheckpoint) {
  JobRun job;
  const RunSummary first = job.run();
  EXPECT_EQ(first.status, RunStatus::kFinished) << first.reason << "\n" << job.said();
  job.config().train.steps = 30;
  Step began;
  job.also = [&](const WorkerReport& report) {
    if (report.kind == Kind::kReady && report.rank == Rank(0)) began = report.step;
  };
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFinished) << summary.reason;
  EXPECT_EQ(summary.steps, Step(30));
  EXPECT_EQ(began, Step(20));
}

TEST(JobRun, AnotherModelInTheSameFolderIsRefused) {
  JobRun job;
  job.run();
  const std::string config_before = TestFolder::read(job.out("config.toml"));
  job.config().train.seed = 99;
  job.config().model.experts *= 2;
  const auto refused = job.try_run();
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  const std::string message(refused.status().message());
  EXPECT_THAT(message, HasSubstr(job.out("checkpoints/step-00000020") + " is of another model: "));
  EXPECT_THAT(message, HasSubstr("model.experts is "));
  EXPECT_THAT(message, HasSubstr("train.seed is 1 there and 99 here"));
  EXPECT_EQ(TestFolder::read(job.out("config.toml")), config_before);
}

// Bits that were recomputed differ: the newest checkpoint may have the wrong ones.
TEST(JobRun, AFolderWithWitnessesIsNotGoneOnWith) {
  JobRun job;
  job.at_step(12, [&] {
    EXPECT_TRUE(Witnesses().write(real_files(), job.out(""), "0.1-step-12", "they differ").ok());
  });
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFailed) << "no worker has said it";
  EXPECT_EQ(summary.exit_code, 4);
  EXPECT_THAT(summary.reason, HasSubstr("they differ"));
  const auto refused = job.try_run();
  EXPECT_TRUE(is_hopeless(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("they differ; witnesses in " + job.out("contradiction/0.1-step-12")));
  ASSERT_TRUE(remove_tree(real_files(), job.out("contradiction")).ok());
  EXPECT_EQ(job.run().status, RunStatus::kNothingToDo);
}

TEST(JobRun, ManyNodesMayLookAtTheFolderAtOnce) {
  const TestFolder folder;
  const auto look = [&] {
    for (int i = 0; i < 200; ++i)
      EXPECT_TRUE(check_output_folder(real_files(), folder.path("out")).ok());
  };
  std::vector<std::thread> nodes;
  for (int node = 0; node < 4; ++node) nodes.emplace_back(look);
  for (std::thread& node : nodes) node.join();
  EXPECT_FALSE(real_files().exists(folder.path("out/run.probe")));
}

TEST(JobRun, ALockedFolderIsRefusedWithThePid) {
  JobRun job;
  const auto lock = OutputLock::acquire(job.out("run.lock"), absl::ZeroDuration());
  const auto refused = job.try_run();
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(absl::StrCat("process ", ::getpid())));
}

// Nobody knows any more what it would write into.
TEST(JobRun, ARunWhoseFolderIsDeletedEnds) {
  JobRun job;
  job.config().train.steps = 10'000'000;
  job.config().checkpoint.every_steps = 1'000'000;
  job.at_step(50, [&] { remove_tree(real_files(), job.out("")).IgnoreError(); });
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFailed);
  EXPECT_EQ(summary.exit_code, 4);
  EXPECT_THAT(summary.reason, HasSubstr("has been deleted"));
  EXPECT_FALSE(real_files().exists(job.out("terms"))) << "and nothing is made again";
}

TEST(JobRun, ARunWhoseFolderIsDeletedAndUsedAgainEnds) {
  JobRun job;
  job.config().train.steps = 10'000'000;
  job.config().checkpoint.every_steps = 1'000'000;
  std::unique_ptr<JobFolder> second;
  job.at_step(50, [&] {
    remove_tree(real_files(), job.out("")).IgnoreError();
    second = JobFolder::prepare(real_files(), job.config(), job.out("")).value();
    job.write("workers.json", "of the second run");
  });
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFailed);
  EXPECT_THAT(summary.reason, HasSubstr("has been deleted and is used by " + second->term().owner));
  EXPECT_TRUE(check_term(real_files(), second->path(), second->term()).ok());
  EXPECT_EQ(TestFolder::read(job.out("workers.json")), "of the second run");
}

// A drained job whose end is told while its next host begins is not begun again.
TEST(JobRun, AJobThatEndsWhileItIsTakenOverHasEnded) {
  class EndsMeanwhile : public FaultyFiles {
   public:
    explicit EndsMeanwhile(FolderTerm first) : FaultyFiles(real_files(), {}), first_(first) {}
    absl::StatusOr<std::vector<std::string>> list(const std::string& directory) override {
      const std::string folder = parent_directory(directory);
      if (base_name(directory) == "terms" && ++lists_ == 2) {
        EXPECT_TRUE(mark_job_ended(real_files(), folder, first_, kJobDrained).ok());
      }
      return FaultyFiles::list(directory);
    }

   private:
    const FolderTerm first_;
    int lists_ = 0;
  };
  JobRun job;
  const JobFolderOptions options{.build = "1", .is_on_many_machines = true};
  const auto prepare = [&](Files& files) {
    return JobFolder::prepare(files, job.config(), job.out(""), options).value();
  };
  const FolderTerm first = prepare(real_files())->term();
  EXPECT_EQ(prepare(real_files())->end_meanwhile(), std::nullopt) << "it goes on";
  EndsMeanwhile files(newest_term(real_files(), job.out(""))->term);
  EXPECT_EQ(prepare(files)->end_meanwhile(), kJobDrained);
  EXPECT_EQ(prepare(real_files())->end_meanwhile(), std::nullopt) << "another one is wanted now";
  EXPECT_EQ(first.hosts_before, 0);
}

// On a file system whose locks do not reach other machines, or after the lock was lost.
TEST(JobRun, ARunEndsWhenAnotherOneTakesTheFolder) {
  JobRun job;
  job.config().train.steps = 10'000'000;
  job.config().checkpoint.every_steps = 1'000'000;
  job.at_step(50,
              [&] { take_next_term(real_files(), job.out(""), "the second run").IgnoreError(); });
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.exit_code, 4);
  EXPECT_THAT(summary.reason, HasSubstr("is over, term 2 belongs to the second run"));
}

TEST(JobRun, MachinesOfTheirOwnHaveNoPartOfTheCpusOfThisOne) {
  JobRun job;
  job.config().run.node_cpus = 0.5;
  job.is_hosted_at("127.0.0.1:1");
  const auto refused = job.try_run();
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("run.node_cpus: found 0.5"));
}

TEST(JobRun, AFileInPlaceOfTheFolderIsRefused) {
  JobRun job;
  job.write("file", "");
  JobRunOptions options;
  options.config = job.config();
  options.out = job.out("file");
  options.program = "/does/not/exist";
  EXPECT_TRUE(absl::IsInvalidArgument(run_job(real_files(), real_clock(), options, job).status()));
}

TEST(JobRun, ADrainedJobIsSavedAndGoesOn) {
  JobRun job;
  job.config().train.steps = 100'000;
  job.config().checkpoint.every_steps = 1'000'000;
  job.also = [](const WorkerReport& report) {
    if (report.kind == Kind::kStep && report.step == Step(50)) ::kill(::getpid(), SIGTERM);
  };
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kDrained) << summary.reason;
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_EQ(summary.digest, job.digest(summary.steps));
}

TEST(JobRun, AFailedJobStillDescribesItsCheckpoint) {
  JobRun job;
  const RunSummary summary = job.script("-1 1 8 fail").run();
  EXPECT_EQ(summary.status, RunStatus::kFailed);
  EXPECT_EQ(summary.exit_code, 4);
  EXPECT_EQ(summary.digest, job.digest(Step(5)));
  EXPECT_EQ(summary.restarts, 3);
  EXPECT_THAT(summary.reason,
              HasSubstr("given up after 3 restarts in a row without progress beyond step 7"));
  EXPECT_THAT(to_text(summary), HasSubstr("exit code 1: the disk is full"));
}

TEST(JobRun, AMissingFinalCheckpointIsAFailure) {
  class Forgetful : public JobRun {
    void on_report(const WorkerReport&) override {}
  } job;
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFailed);
  EXPECT_THAT(summary.reason, HasSubstr("not the one to end with: "));
}

TEST(JobRun, ADamagedFinalCheckpointIsDoneAgain) {
  JobRun job;
  job.run();
  job.write("checkpoints/step-00000020/rank-0000.safetensors", "damage");
  remove_tree(real_files(), job.out("durable")).IgnoreError();
  const RunSummary summary = job.run();
  EXPECT_EQ(summary.status, RunStatus::kFinished) << summary.reason;
  EXPECT_EQ(summary.digest, job.digest(Step(20)));
  EXPECT_THAT(job.said(), HasSubstr("skipped checkpoint: "));
}

TEST(RunSummary, ShortNumbers) {
  EXPECT_EQ(short_number(850), "850");
  EXPECT_EQ(short_number(9999), "9999");
  EXPECT_EQ(short_number(12345), "12.3k");
  EXPECT_EQ(short_number(2.5e6), "2.5M");
}

}  // namespace
}  // namespace evermoe
