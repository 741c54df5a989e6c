// Runs the real binary on checkpoints: inspect, verify, digest, diff and export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "checkpoint/fake_state_testing.h"
#include "cli/run_binary_testing.h"
#include "config/job_config.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kAllowed[] =
    ", allowed: a checkpoint folder; or a job's output folder, for its newest checkpoint\n";

using Result = BinaryResult;

JobConfig small_job(const std::string& style) {
  JobConfig config;
  config.model.vocabulary = 64;
  config.model.sequence_length = 16;
  config.model.layers = 2;
  config.model.hidden = 64;
  config.model.heads = 4;
  config.model.kv_heads = 2;
  config.model.head_dim = 16;
  config.model.expert_hidden = 64;
  config.model.experts = 4;
  config.model = with_style(config.model, style).value();
  config.data.path = "/nowhere/text.txt";
  return config;
}

// Jobs' output folders with checkpoints of made-up numbers in a real model's operators.

class CheckpointCommandsTest : public testing::Test {
 protected:
  CheckpointCommandsTest() { use(small_job("qwen-moe")); }

  void use(const JobConfig& config) {
    configuration_ = to_toml(config);
    state_.operators.clear();
    for (const OperatorSpec& spec : model_operators(config.model)) {
      state_.operators.emplace_back(spec.name, spec.flat_size);
    }
    std::sort(state_.operators.begin(), state_.operators.end());
  }

  // Saves step `step` of job `out` by `world` ranks; returns the job's folder.
  std::string save(const std::string& out, int64_t step, int world, FakeCut cut = FakeCut::kEven) {
    TrainingPosition position = state_.position(Step(step));
    position.configuration = configuration_;
    position.validation_loss = 2.5;
    auto job = FakeJob::open(real_files(), {.directory = folder_.at(out + "/checkpoints"),
                                            .world_size = world,
                                            .state_type = state_.state_type,
                                            .compute_type = state_.compute_type,
                                            .topology = "2 stages, lanes 1 1"});
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE((*job)->prepare(state_, position, cut).ok());
    EXPECT_TRUE((*job)->publish(Step(step)).ok());
    return folder_.at(out);
  }

  // "D" stands for the test's folder in what is returned.
  Result run(const std::vector<std::string>& arguments) {
    const Result result = run_binary(arguments, folder_.path());
    return {result.code, without_folder(result.out, folder_.path()),
            without_folder(result.error, folder_.path())};
  }

  std::string text(const std::string& path) const {
    return without_folder(read_file(real_files(), path, 1 << 24).value(), folder_.path());
  }

  // Changes one byte in the middle of a file.
  void flip(const std::string& path) { flip(path, std::filesystem::file_size(path) / 2); }
  void flip(const std::string& path, size_t at) {
    std::string content = read_file(real_files(), path, 1 << 24).value();
    content.at(at) ^= 0x10;
    ASSERT_TRUE(write_file_synced(real_files(), path, content).ok());
  }

  FakeState state_;
  std::string configuration_;
  ScratchFolder folder_;
};

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

TEST_F(CheckpointCommandsTest, VerifyIsOk) {
  const std::string out = save("job", 60, 2);
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              ContainsRegex("^ok: D/job/checkpoints/step-00000060, 2 files, [0-9,]+ bytes read in "
                            "[0-9.]+ s\n$"));
  EXPECT_EQ(result.error, "");
}

TEST_F(CheckpointCommandsTest, VerifyNamesEveryDamagedShard) {
  const std::string out = save("job", 60, 2);
  const std::string folder = out + "/checkpoints/step-00000060/";
  flip(folder + "rank-0000.safetensors");
  flip(folder + "rank-0001.safetensors");
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_EQ(lines.size(), 4u) << result.out;
  EXPECT_EQ(lines[2], "damaged: D/job/checkpoints/step-00000060, 2 problems");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(lines[i], AllOf(StartsWith("D/job/checkpoints/step-00000060/rank-000"),
                                HasSubstr("the fingerprint does not match the bytes")));
  }
}

TEST_F(CheckpointCommandsTest, VerifyNamesEveryMissingAndCutFile) {
  const std::string out = save("job", 60, 3);
  const std::string folder = out + "/checkpoints/step-00000060/";
  std::filesystem::remove(folder + "rank-0000.safetensors");
  const auto size = std::filesystem::file_size(folder + "rank-0002.safetensors");
  std::filesystem::resize_file(folder + "rank-0002.safetensors", size - 1);
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_EQ(lines.size(), 4u) << result.out;
  EXPECT_THAT(lines[0], HasSubstr("D/job/checkpoints/step-00000060/rank-0000.safetensors"));
  EXPECT_EQ(lines[1], absl::StrCat("D/job/checkpoints/step-00000060/rank-0002.safetensors: has ",
                                   size - 1, " bytes, the manifest says ", size));
}

TEST_F(CheckpointCommandsTest, VerifyNamesTheManifest) {
  const std::string out = save("job", 60, 1);
  flip(out + "/checkpoints/step-00000060/manifest.json");
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, StartsWith("D/job/checkpoints/step-00000060/manifest.json: "));
  std::filesystem::remove(out + "/checkpoints/step-00000060/manifest.json");
  EXPECT_EQ(run({"verify", out}).code, 1);
}

TEST_F(CheckpointCommandsTest, DamageIsNotBadInput) {
  const std::string good = save("good", 60, 2);
  const std::string out = save("job", 60, 2);
  const std::string hf = folder_.at("hf");
  const std::string file = out + "/checkpoints/step-00000060/rank-0001.safetensors";
  const auto manifest = nlohmann::json::parse(text(out + "/checkpoints/latest/manifest.json"));
  flip(file,
       manifest["files"][1]["header_bytes"]);  // a master weight: export does not look at moments
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"digest", out},
                                             {"diff", good, out},
                                             {"export", out, "--out", hf, "--tokenizer", "none"}}) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 1) << command[0];
    EXPECT_EQ(result.out, "") << command[0];
    EXPECT_THAT(
        result.error,
        AllOf(StartsWith("evermoe: D/job/checkpoints/step-00000060/rank-0001.safetensors: "),
              HasSubstr("fingerprint")));
  }
  EXPECT_FALSE(real_files().exists(hf));
  EXPECT_FALSE(real_files().exists(hf + ".exporting"));
  std::filesystem::remove(file);
  for (const char* command : {"inspect", "digest"}) {
    const Result result = run({command, out});
    EXPECT_EQ(result.code, 1) << command;
    EXPECT_THAT(result.error, HasSubstr("rank-0001.safetensors")) << command;
  }
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
