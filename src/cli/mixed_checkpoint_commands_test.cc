// The real binary on a checkpoint whose experts are of different ages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/checkpoint_commands_testing.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MixedCheckpointCommandsTest : public CheckpointCommandsTest {
 protected:
  // Step 60 with one of the eight experts of step 20 and two of step 40.
  std::string save_mixed(const std::string& out) {
    state_.seed = 1;
    save(out, 20, 2);
    state_.seed = 2;
    save_partial(out, 40, 2, {Step(20), {"layer.1.expert.3"}, 500, 0});
    state_.seed = 3;
    return save_partial(
        out, 60, 2,
        {Step(40), {"layer.0.expert.0", "layer.1.expert.2", "layer.1.expert.3"}, 1000, 2});
  }
  FakeState mixed() const {
    FakeState result = state_;
    result.seed = 3;
    result.seeds = {{"layer.0.expert.0", 2}, {"layer.1.expert.2", 2}, {"layer.1.expert.3", 1}};
    return result;
  }
};

constexpr char kAges[] =
    "5 of step 60, 2 of step 40, 1 of step 20; the oldest: layer.1.expert.3, 40 steps older";

TEST_F(MixedCheckpointCommandsTest, InspectSaysHowOldTheExpertsAre) {
  const BinaryResult result = run({"inspect", save_mixed("job")});
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr(std::string("\nexperts     ") + kAges +
                                    "\ntokens      3,000 that experts lose if a run restarts from "
                                    "here, 16 that they have lost before\n"));
  EXPECT_THAT(result.out, ContainsRegex("\nrank-0001\\.safetensors +1 +11 "));
  EXPECT_THAT(result.out, ContainsRegex("\nstep-00000020/rank-0001\\.safetensors +1 +1 "));
  EXPECT_THAT(result.out, ContainsRegex("\nstep-00000040/rank-0000\\.safetensors +0 +2 "));
  const std::string whole = run({"inspect", folder_.at("job/checkpoints/step-00000020")}).out;
  EXPECT_THAT(whole,
              AllOf(testing::Not(HasSubstr("\nexperts ")), testing::Not(HasSubstr("\ntokens "))));
}

TEST_F(MixedCheckpointCommandsTest, InspectAsJson) {
  const std::string out = save_mixed("job");
  const auto json = nlohmann::json::parse(run({"inspect", "--json", out}).out);
  EXPECT_EQ(json["experts"], nlohmann::json::parse(R"({
      "by_step": [{"step": 60, "experts": 5}, {"step": 40, "experts": 2},
                  {"step": 20, "experts": 1}],
      "older": 3, "oldest": {"name": "layer.1.expert.3", "step": 20},
      "unsaved_tokens": 3000, "lost_tokens": 16})"));
  int64_t bytes = 0;
  for (const auto& file : json["files"]) bytes += file["bytes"].get<int64_t>();
  EXPECT_EQ(json["bytes"], bytes);
  const auto whole =
      nlohmann::json::parse(run({"inspect", "--json", out + "/checkpoints/step-00000020"}).out);
  EXPECT_EQ(whole["experts"]["older"], 0);
  EXPECT_EQ(whole["experts"]["by_step"][0]["experts"], 8);
}

TEST_F(MixedCheckpointCommandsTest, DigestDiffAndVerifyGoThroughOlderFolders) {
  const std::string out = save_mixed("job");
  EXPECT_EQ(run({"digest", out}).out, to_hex(mixed().digest(Step(60))) + "\n");
  state_ = mixed();
  const std::string whole = save("whole", 60, 3);
  const BinaryResult diff = run({"diff", out, whole});
  EXPECT_EQ(diff.code, 0) << diff.out << diff.error;
  EXPECT_THAT(run({"verify", out}).out,
              ContainsRegex("^ok: D/job/checkpoints/step-00000060, 6 files, "));
}

TEST_F(MixedCheckpointCommandsTest, VerifyNamesDamageInOlderFolders) {
  const std::string out = save_mixed("job");
  const std::string older = "/checkpoints/step-00000020/rank-0001.safetensors";
  const auto manifest =
      nlohmann::json::parse(text(out + "/checkpoints/step-00000060/manifest.json"));
  for (const auto& op : manifest["operators"]) {
    if (op["name"] == "layer.1.expert.3") flip(out + older, op["shards"][1]["exp_avg"]["offset"]);
  }
  BinaryResult result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out,
              AllOf(StartsWith("D/job" + older + ": operator layer.1.expert.3 exp_avg, "),
                    HasSubstr("damaged: D/job/checkpoints/step-00000060, 1 problem\n")));
  std::filesystem::remove(out + older);
  result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, StartsWith("D/job" + older + ": "));
}

TEST_F(MixedCheckpointCommandsTest, VerifyNamesAnOlderCheckpointThatWasSavedAgain) {
  const std::string out = save_mixed("job");
  state_.seed = 9;
  save("job", 20, 2);
  const BinaryResult result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.out,
      StartsWith("D/job/checkpoints/step-00000020/rank-0000.safetensors: operator layer.1.expert.3 "
                 "is not the one that the checkpoint of step 60 was made with: step 20 has been "
                 "saved again\ndamaged: "));
}

TEST_F(MixedCheckpointCommandsTest, ExportRefusesDifferentAgesUnlessTheyAreWanted) {
  const std::string out = save_mixed("job");
  const std::string hf = folder_.at("hf");
  BinaryResult result = run({"export", out, "--out", hf, "--tokenizer", "none"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.error,
            std::string("evermoe: D/job/checkpoints/step-00000060: experts of different ages: ") +
                kAges + "; allowed: a checkpoint of one step, or --mixed-ages\n");
  EXPECT_FALSE(real_files().exists(hf));
  result = run({"export", out, "--out", hf, "--tokenizer", "none", "--mixed-ages"});
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_EQ(result.error, std::string("evermoe: warning: D/job/checkpoints/step-00000060: experts "
                                      "of different ages: ") +
                              kAges + "\n");
  EXPECT_TRUE(real_files().exists(hf + "/config.json"));
}

}  // namespace
}  // namespace evermoe
