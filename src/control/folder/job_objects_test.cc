// A job's object store as its host uses it, with a real server.
#include "control/folder/job_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <vector>

#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/object_store/object_server_testing.h"

namespace evermoe {
namespace {

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

  absl::Status save(const ScratchFolder& out, int64_t step) {
    SaverOptions options;
    options.directory = out.at("checkpoints");
    options.world_size = 2;
    options.compute_type = ElementType::kBf16;
    ASSIGN_OR_RETURN(const auto job, FakeJob::open(real_files(), options));
    return job->save(state_, Step(step));
  }
  JobUploads uploads(const ScratchFolder& out) {
    return {real_files(), config_, out.path(), FolderTerm{},
            [this](const std::string& line) { said_.push_back(line); }};
  }
  absl::Status bring(const ScratchFolder& out) {
    return bring_from_store(real_files(), config_, out.at("checkpoints"),
                            [this](const std::string& line) { said_.push_back(line); });
  }

  ScratchFolder server_folder_;
  ObjectServer server_{server_folder_.path()};
  CheckpointConfig config_;
  FakeState state_;
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
