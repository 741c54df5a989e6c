// Runs the real binary on a real object store: fetch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/object_store/object_server_testing.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "cli/checkpoint_commands_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

class FetchCommandTest : public CheckpointCommandsTest {
 protected:
  FetchCommandTest() {
    for (const auto& [name, value] : server_.environment())
      ::setenv(name.c_str(), value.c_str(), 1);
    const auto store = server_.open("job");
    const std::string term = take_store_term(*store, "a test").value();
    for (const int64_t step : {20, 40}) {
      const std::string folder =
          join_path(save("job", step, 2), "checkpoints/" + step_directory_name(Step(step)));
      EXPECT_TRUE(store_checkpoint(real_files(), *store, folder, term, Sending::kEverything, [] {
                    return absl::OkStatus();
                  }).ok());
    }
  }

  ScratchFolder server_folder_;
  ObjectServer server_{server_folder_.path()};
};

TEST_F(FetchCommandTest, BringsTheNewestOrAnotherStepToAFolderThatOtherCommandsRead) {
  const std::string url = server_.url("job");
  EXPECT_THAT(run({"fetch", url}).out, testing::ContainsRegex("^step 40, term .*\nstep 20, term "));
  EXPECT_EQ(run({"fetch", url, "--out", folder_.at("new")}).out, "D/new/step-00000040\n");
  EXPECT_EQ(run({"verify", folder_.at("new")}).code, 0);
  EXPECT_EQ(run({"fetch", url, "--out", folder_.at("new"), "--step", "20"}).out,
            "D/new/step-00000020\n");
  const BinaryResult same =
      run({"diff", folder_.at("new/step-00000020"), folder_.at("job/checkpoints/step-00000020")});
  EXPECT_EQ(same.code, 0) << same.out << same.error;
}

TEST_F(FetchCommandTest, RefusesInOneLine) {
  const BinaryResult step = run({"fetch", server_.url("job"), "--step", "30"});
  EXPECT_EQ(step.code, 2);
  EXPECT_EQ(step.error, "evermoe: --step: found 30, allowed: 40, 20\n");
  const BinaryResult place = run({"fetch", "/a/folder"});
  EXPECT_EQ(place.code, 2);
  EXPECT_THAT(place.error, HasSubstr("allowed: s3://BUCKET"));
  const BinaryResult empty = run({"fetch", server_.url("nothing")});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.error, HasSubstr("s3://checkpoints/nothing: found no checkpoint"));
  server_.kill();
  const BinaryResult gone = run({"fetch", server_.url("job")});
  EXPECT_EQ(gone.code, 1) << gone.error;
}

}  // namespace
}  // namespace evermoe
