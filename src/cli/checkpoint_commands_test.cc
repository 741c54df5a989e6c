// Runs the real binary on checkpoints: inspect, digest, diff and export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/checkpoint_commands_testing.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kAllowed[] =
    ", allowed: a checkpoint folder; or a job's output folder, for its newest checkpoint\n";

using Result = BinaryResult;

TEST_F(CheckpointCommandsTest, InspectSaysWhatIsInIt) {
  const std::string out = save("job", 60, 2);
  const Result result = run({"inspect", out});
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_THAT(result.out,
              StartsWith("checkpoint  D/job/checkpoints/step-00000060\n"
                         "step        60, 59 updates applied, 480 samples consumed\n"
                         "saved by    2 ranks: 2 stages, lanes 1 1\n"
                         "precision   bf16, master weights and moments fp32\n"
                         "validation  loss 2.5\n"
                         "model       qwen-moe, 2 layers, hidden 64, top-2 of 4 experts\n"));
  EXPECT_THAT(result.out, ContainsRegex("\nexpert +8 +98,304 +1\\.1 MiB\n"));
  EXPECT_THAT(result.out, ContainsRegex("\nrank-0001\\.safetensors +1 +14 "));
}

TEST_F(CheckpointCommandsTest, InspectAsJson) {
  const std::string out = save("job", 60, 2);
  const auto json = nlohmann::json::parse(run({"inspect", "--json", out}).out);
  EXPECT_EQ(json["step"], 60);
  EXPECT_EQ(json["samples"], 480);
  EXPECT_EQ(json["validation_loss"], 2.5);
  EXPECT_EQ(json["topology"], "2 stages, lanes 1 1");
  EXPECT_EQ(json["world_size"], 2);
  EXPECT_EQ(json["compute_type"], "bf16");
  EXPECT_EQ(json["model"]["experts"], 4);
  EXPECT_EQ(json["operators"]["expert"]["count"], 8);
  EXPECT_EQ(json["operators"]["expert"]["bytes"], 98304 * 12);
  EXPECT_EQ(json["shards"], 28);
  int64_t bytes = 0;
  for (const auto& file : json["files"]) {
    const std::string path = out + "/checkpoints/latest/" + file["name"].get<std::string>();
    EXPECT_EQ(file["bytes"], std::filesystem::file_size(path));
    bytes += file["bytes"].get<int64_t>();
  }
  EXPECT_EQ(json["bytes"], bytes);
}

TEST_F(CheckpointCommandsTest, InspectTakesACheckpointOrAConfiguration) {
  EXPECT_EQ(run({"inspect"}).error,
            "evermoe: inspect: found nothing to inspect, allowed: a CHECKPOINT or --config FILE\n");
  const std::string out = save("job", 60, 1);
  const Result both = run({"inspect", out, "--config", "x.toml"});
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(both.error,
            "evermoe: inspect: found a CHECKPOINT and --config FILE, allowed: one of them\n");
  EXPECT_EQ(run({"inspect", out, "--set", "train.steps=3"}).code, 2);
}

TEST_F(CheckpointCommandsTest, InspectWorksWithoutAReadableConfiguration) {
  configuration_ = "[model\n";
  const std::string out = save("job", 60, 1);
  const Result result = run({"inspect", out});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              HasSubstr("\nmodel       unknown: D/job/checkpoints/step-00000060/manifest.json: "
                        "the stored configuration:"));
  EXPECT_TRUE(nlohmann::json::parse(run({"inspect", "--json", out}).out)["model"].is_null());
  const Result exported = run({"export", out, "--out", folder_.at("hf")});
  EXPECT_EQ(exported.code, 1);
  EXPECT_THAT(exported.error, HasSubstr("manifest.json: the stored configuration"));
}

TEST_F(CheckpointCommandsTest, EveryWayToNameACheckpoint) {
  save("job", 40, 1);
  const std::string out = save("job", 60, 1);
  const std::string newest = to_hex(state_.digest(Step(60))) + "\n";
  for (const std::string& path :
       {out, out + "/", out + "/checkpoints", out + "/checkpoints/latest",
        out + "/checkpoints/step-00000060", out + "/checkpoints/step-00000060/"}) {
    EXPECT_EQ(run({"digest", path}).out, newest) << path;
  }
  EXPECT_EQ(run({"digest", out + "/checkpoints/step-00000040"}).out,
            to_hex(state_.digest(Step(40))) + "\n");
  std::filesystem::rename(out + "/checkpoints/step-00000060", folder_.at("moved"));
  EXPECT_EQ(run({"digest", folder_.at("moved")}).out, newest);
}

TEST_F(CheckpointCommandsTest, WrongPathsAreBadInput) {
  const std::string file = folder_.at("file");
  ASSERT_TRUE(write_file_synced(real_files(), file, "x").ok());
  const std::string good = save("job", 60, 1);
  const std::vector<std::vector<std::string>> commands = {
      {"inspect"}, {"verify"}, {"digest"}, {"diff", good}, {"export", "--out", folder_.at("hf")}};
  for (std::vector<std::string> command : commands) {
    command.push_back(folder_.at("none"));
    Result result = run(command);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.error, std::string("evermoe: D/none: no such folder") + kAllowed);
    command.back() = file;
    result = run(command);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.error, std::string("evermoe: D/file: not a folder") + kAllowed);
    command.back() = folder_.path();
    result = run(command);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.error, std::string("evermoe: D: no checkpoint in it") + kAllowed);
  }
  EXPECT_EQ(run({"digest", good + "/checkpoints/step-00000099"}).code, 2);
  EXPECT_EQ(run({"digest"}).code, 2);
  EXPECT_EQ(run({"diff", good}).code, 2);
}

TEST_F(CheckpointCommandsTest, DigestAndDiffDoNotSeeTheTopology) {
  const std::string one = save("one", 60, 1);
  const std::string three = save("three", 60, 3, FakeCut::kWhole);
  EXPECT_EQ(run({"digest", one}).out, to_hex(state_.digest(Step(60))) + "\n");
  EXPECT_EQ(run({"digest", three}).out, run({"digest", one}).out);
  const Result result = run({"diff", one, three});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "equal: the same step, weights, moments and loss scale\n");
}

TEST_F(CheckpointCommandsTest, DiffNamesTheFirstDifference) {
  const std::string a = save("a", 60, 2);
  const std::string later = save("later", 61, 2);
  Result result = run({"diff", a, later});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "first difference: step is 60 in A and 61 in B\n");
  EXPECT_EQ(result.error, "");
  // An operator's numbers follow from its place in the list: the first two experts have other ones.
  const auto first = std::find(state_.operators.begin(), state_.operators.end(),
                               std::pair<std::string, int64_t>("layer.0.expert.0", 3 * 64 * 64));
  std::iter_swap(first, first + 1);
  const std::string b = save("b", 60, 3);
  result = run({"diff", a, b});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, ContainsRegex("^first difference: layer\\.0\\.expert\\.0 master element "
                                        "0 is [-0-9.e]+ \\(0x[0-9a-f]{8}\\) "
                                        "in A and [-0-9.e]+ \\(0x[0-9a-f]{8}\\) in B\n$"));
}

TEST_F(CheckpointCommandsTest, ExportWritesAFolder) {
  const std::string out = save("job", 60, 2);
  const std::string hf = folder_.at("models/hf");
  const Result result = run({"export", out, "--out", hf + "/", "--tokenizer", "none"});
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_THAT(result.out, AllOf(StartsWith("D/models/hf/: Qwen2MoeForCausalLM of step 60, "),
                                HasSubstr(" parameters in fp32, 1 weight file, ")));
  const auto config = nlohmann::json::parse(text(hf + "/config.json"));
  EXPECT_EQ(config["model_type"], "qwen2_moe");
  EXPECT_EQ(config["num_experts"], 4);
  const Result again = run({"export", out, "--out", hf, "--tokenizer", "none"});
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(
      again.error,
      "evermoe: D/models/hf: exists and is not an empty folder, allowed: a new or empty folder\n");
  EXPECT_EQ(run({"export", out, "--out", folder_.at("many"), "--tokenizer", "none", "--type",
                 "bf16", "--max-file-size", "100kB"})
                .code,
            0);
  EXPECT_TRUE(real_files().exists(folder_.at("many/model.safetensors.index.json")));
}

TEST_F(CheckpointCommandsTest, ExportRefusesWhatItCannotExpress) {
  use(small_job("gpt-moe"));
  const std::string out = save("job", 60, 1);
  const std::string hf = folder_.at("hf");
  const auto refusal = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"export", out, "--out", hf};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_FALSE(real_files().exists(hf));
    EXPECT_FALSE(real_files().exists(hf + ".exporting"));
    return result.error;
  };
  EXPECT_THAT(
      refusal({}),
      StartsWith("evermoe: no class of transformers computes this model: it has model.norm = "
                 "layernorm (only rmsnorm), "));
  EXPECT_THAT(
      refusal({"--format", "mixtral"}),
      StartsWith("evermoe: MixtralForCausalLM does not compute this model: it has model.norm"));
  EXPECT_EQ(refusal({"--format", "gguf"}),
            "evermoe: --format: found \"gguf\", allowed: auto, qwen2-moe, mixtral, ernie4.5-moe\n");
  EXPECT_EQ(refusal({"--type", "fp16"}), "evermoe: --type: found \"fp16\", allowed: fp32, bf16\n");
  EXPECT_THAT(refusal({"--max-file-size", "0"}), StartsWith("evermoe: --max-file-size: "));
}

}  // namespace
}  // namespace evermoe
