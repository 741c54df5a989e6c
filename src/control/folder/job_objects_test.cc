// A job's object store as its host uses it, with a real server.
#include "control/folder/job_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <vector>

#include "absl/strings/match.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/object_store/object_server_testing.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "config/job_config.h"
#include "control/folder/job_folder.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobObjectsTest : public ::testing::Test {
 protected:
  JobObjectsTest() {
    config_.store = server_.url("job");
    for (const auto& [name, value] : server_.environment())
      ::setenv(name.c_str(), value.c_str(), 1);
  }

  absl::Status save(const ScratchFolder& out, int64_t step, const std::string& identity = "fake") {
    SaverOptions options;
    options.directory = out.at("checkpoints");
    options.world_size = 2;
    options.compute_type = ElementType::kBf16;
    options.term = [this] { return term_; };
    ASSIGN_OR_RETURN(const auto job, FakeJob::open(real_files(), options));
    TrainingPosition position = state_.position(Step(step));
    position.model_identity = identity;
    RETURN_IF_ERROR(job->prepare(state_, position, FakeCut::kEven));
    return job->publish(Step(step));
  }
  JobUploads uploads(const ScratchFolder& out) {
    return {real_files(), config_,  out.path(),
            FolderTerm{}, damaged_, [this](const std::string& line) { hear(line); }};
  }
  absl::Status bring(const ScratchFolder& out) {
    const auto brought = bring_from_store(real_files(), config_, out.at("checkpoints"), wait_,
                                          [this](const std::string& line) { hear(line); });
    if (brought.ok()) damaged_ = *brought;
    return brought.status();
  }

  // A server that has much to do says so at times, and is asked again.
  void hear(const std::string& line) {
    if (!absl::StrContains(line, "answers 503")) said_.push_back(line);
  }

  // One byte of an object whose name begins so.
  void damage(const std::string& prefix) {
    const auto store = server_.open("job");
    const std::vector<StoredObject> objects = store->list(prefix).value();
    for (const StoredObject& object : objects) {
      std::string bytes = read_object(*store, object.name, 1 << 30).value();
      bytes[bytes.size() - 9] ^= 1;
      ASSERT_TRUE(store->put(object.name, std::as_bytes(std::span(bytes))).ok());
    }
  }

  ScratchFolder server_folder_;
  ObjectServer server_{server_folder_.path()};
  CheckpointConfig config_;
  FakeState state_;
  StoreWait wait_;
  FolderTerm term_;         // in whose name is saved
  std::set<Step> damaged_;  // as the last bring() found them
  std::vector<std::string> said_;
};

TEST_F(JobObjectsTest, AFreshFolderGoesOnFromWhatWasPutThere) {
  const ScratchFolder out;
  ASSERT_TRUE(save(out, 7).ok());
  uploads(out).finish();
  EXPECT_THAT(said_, IsEmpty());
  const ScratchFolder fresh;
  ASSERT_TRUE(bring(fresh).ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("step 7 comes from s3://checkpoints/job")));
  EXPECT_EQ(CheckpointReader::open(real_files(), fresh.path()).value()->digest().value(),
            state_.digest(Step(7)));
  // What is there already is not brought.
  said_.clear();
  ASSERT_TRUE(bring(fresh).ok());
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(JobObjectsTest, AStoreThatDoesNotAnswerIsToldAndOutlivedByAFolderThatHasSomething) {
  const ScratchFolder out;
  server_.kill();
  const absl::Status unknown = bring(out);
  EXPECT_TRUE(is_hopeless(unknown)) << unknown;
  ASSERT_TRUE(save(out, 7).ok());
  EXPECT_TRUE(bring(out).ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("the job goes on from step 7 of its folder")));
  uploads(out).finish();
  EXPECT_THAT(said_, Contains(HasSubstr("step 7 is not in s3://checkpoints/job")));
}

// Else what its ranks save on their own disks would be older than what they went on from.
TEST_F(JobObjectsTest, TheTermsOfAFreshFolderBeginAboveThatOfWhatCameFromThere) {
  const ScratchFolder out;
  JobConfig config;
  config.checkpoint = config_;
  term_.number = 12;
  ASSERT_TRUE(save(out, 7, model_identity(config)).ok());
  uploads(out).finish();
  const ScratchFolder fresh;
  const auto folder = JobFolder::prepare(real_files(), config, fresh.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->term().number, 13);
}

TEST_F(JobObjectsTest, OneThatIsDamagedThereIsPassedOverAndPutThereAgain) {
  const ScratchFolder out;
  config_.store_keep_newest = 2;
  for (const int64_t step : {7, 8}) {
    ASSERT_TRUE(save(out, step).ok());
    uploads(out).finish();
  }
  damage("step-00000008/rank-0001");
  const ScratchFolder fresh;
  ASSERT_TRUE(bring(fresh).ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("skipped checkpoint"), HasSubstr("step 7 comes from")));
  EXPECT_EQ(CheckpointReader::open(real_files(), fresh.path()).value()->position().step, Step(7));
  EXPECT_FALSE(real_files().exists(fresh.at("checkpoints/step-00000008")));
  // The same bits again.
  said_.clear();
  ASSERT_TRUE(save(fresh, 8).ok());
  uploads(fresh).finish();
  const ScratchFolder another;
  ASSERT_TRUE(bring(another).ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("step 8 comes from")));
}

TEST_F(JobObjectsTest, TheStoreKeepsNoDamagedOneInTheGoodOnesPlace) {
  const ScratchFolder out;
  config_.store_keep_newest = 2;
  for (const int64_t step : {7, 8}) {
    ASSERT_TRUE(save(out, step).ok());
    uploads(out).finish();
  }
  damage("step-00000008/rank-0001");
  const ScratchFolder fresh;
  ASSERT_TRUE(bring(fresh).ok());
  ASSERT_TRUE(save(fresh, 9).ok());
  uploads(fresh).finish();
  std::vector<Step> steps;
  for (const auto& checkpoint : stored_checkpoints(server_.open("job")->list("step-").value()))
    steps.push_back(checkpoint.step);
  EXPECT_THAT(steps, ElementsAre(Step(9), Step(7)));
}

TEST_F(JobObjectsTest, AStoreThatCannotBeUsedStopsNobodyWhoHasACheckpoint) {
  const ScratchFolder out;
  ASSERT_TRUE(save(out, 7).ok());
  ::setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
  EXPECT_TRUE(bring(out).ok());
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_TRUE(bring(out).ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("goes on from step 7"),
                                 AllOf(HasSubstr("AWS_SECRET_ACCESS_KEY: found nothing"),
                                       HasSubstr("goes on from step 7"))));
}

TEST_F(JobObjectsTest, WaitsEndWhenTheyAreAskedToAndWhenTheyAreLate) {
  const ScratchFolder out;
  ASSERT_TRUE(save(out, 7).ok());
  server_.kill();
  uploads(out).finish({.at_most = absl::Milliseconds(1)});
  uploads(out).finish({.is_stopped = [] { return true; }});
  EXPECT_THAT(said_, Contains(HasSubstr("step 7 is not in")).Times(2));
  server_.start();
  uploads(out).finish();
  const ScratchFolder fresh;
  wait_.is_stopped = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(bring(fresh)));
  wait_ = {.at_most = absl::ZeroDuration()};
  const absl::Status late = bring(fresh);
  EXPECT_TRUE(is_hopeless(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("has not come within"));
}

TEST_F(JobObjectsTest, SaysWhatTheUserHasToChange) {
  const ScratchFolder out;
  ::setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(bring(out)));
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  const absl::Status missing = bring(out);
  EXPECT_TRUE(absl::IsInvalidArgument(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("AWS_SECRET_ACCESS_KEY: found nothing"));
  config_.store.clear();
  EXPECT_TRUE(bring(out).ok());
}

}  // namespace
}  // namespace evermoe
