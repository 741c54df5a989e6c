#include "config/job_config.h"
#include "config/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/folder_testing.h"
#include "data/token_file.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

JobConfig parsed(const std::string& text, const Settings& settings = {}) {
  const absl::StatusOr<JobConfig> config = parse_config(text, "job.toml", "/jobs", settings);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : JobConfig{};
}

std::string error_of(const std::string& text, const Settings& settings = {}) {
  const absl::Status status = parse_config(text, "job.toml", "/jobs", settings).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}
std::string setting_error(const std::string& setting) { return error_of("", {setting}); }

TEST(JobConfigTest, AnEmptyTextIsTheDefaultPreset) {
  const JobConfig config = parsed("");
  EXPECT_EQ(config.model, preset("qwen-moe-tiny").value());
  EXPECT_EQ(config.train, TrainConfig{});
  EXPECT_EQ(config.parallel.world_size(), 1);
}

TEST(JobConfigTest, AnEvaluationMayReadAllOfTheHeldOutText) {
  const JobConfig config = parsed("", {"evaluate.micro_batches=all"});
  EXPECT_EQ(config.evaluate.micro_batches, 0);
  EXPECT_THAT(to_toml(config), HasSubstr("micro_batches = \"all\"\n"));
  EXPECT_EQ(parsed(to_toml(config)), config);
  EXPECT_EQ(setting_error("evaluate.micro_batches=0"),
            "--set evaluate.micro_batches=0: evaluate.micro_batches: found 0, allowed: all, or "
            "integer from 1 to 1048576");
}

TEST(JobConfigTest, ValuesOfEveryKindAreRead) {
  const JobConfig config = parsed(R"(
    [model]
    preset = "gpt-moe-tiny"
    experts = 4
    norm = "rmsnorm"
    qkv_bias = true
    [train]
    learning_rate = 1
    beta2 = 0.99
    precision = "bf16"
    seed = 9223372036854775807
    [parallel]
    stages = 2
    lanes = [2, 1]
    [data]
    path = "text.txt"
    tokenizer = "../a.model"
  )");
  EXPECT_EQ(config.model.style, "gpt-moe");
  EXPECT_EQ(config.model.experts, 4);
  EXPECT_EQ(config.model.norm, NormKind::kRmsNorm);
  EXPECT_TRUE(config.model.qkv_bias);
  EXPECT_EQ(config.train.learning_rate, 1.0);
  EXPECT_EQ(config.train.beta2, 0.99);
  EXPECT_EQ(config.train.precision, Precision::kBf16);
  EXPECT_EQ(config.train.seed, 9223372036854775807u);
  EXPECT_THAT(config.parallel.lanes, ElementsAre(2, 1));
  EXPECT_EQ(config.data.path, "/jobs/text.txt");
  EXPECT_EQ(config.data.tokenizer, "/a.model");
}

TEST(JobConfigTest, SettingsApplyAfterTheTextAndInOrder) {
  const JobConfig config =
      parsed("train.steps = 5",
             {"train.steps=6", "train.precision=fp16", "train.steps=7", "data.path=/a b.txt",
              "train.schedule=\"wsd\"", "parallel.stages=3", "parallel.lanes=[1,2,1]"});
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.train.precision, Precision::kFp16);
  EXPECT_EQ(config.train.schedule, LearningRateShape::kWsd);
  EXPECT_EQ(config.data.path, "/a b.txt");
  EXPECT_THAT(config.parallel.lanes, ElementsAre(1, 2, 1));
}

TEST(JobConfigTest, PathsOfSettingsAreTakenFromTheCurrentFolder) {
  const JobConfig config = parsed("", {"data.path=5"});
  EXPECT_EQ(config.data.path, std::filesystem::current_path().string() + "/5");
}

TEST(JobConfigTest, OneLanesEntryServesAllStages) {
  EXPECT_THAT(parsed("parallel.stages = 3\nparallel.lanes = 2").parallel.lanes,
              ElementsAre(2, 2, 2));
}

TEST(JobConfigTest, PresetThenStyleThenTheRestWhateverTheOrder) {
  const JobConfig config = parsed(
      "model.norm = \"layernorm\"\nmodel.style = \"mixtral\"\nmodel.preset = \"qwen-moe-tiny\"");
  EXPECT_EQ(config.model.norm, NormKind::kLayerNorm);
  EXPECT_EQ(config.model.style, "mixtral");
  EXPECT_EQ(config.model.shared_hidden, 0);
  EXPECT_FALSE(config.model.qkv_bias);
  // A style among the settings wins over parts in the text.
  EXPECT_EQ(parsed("model.norm = \"layernorm\"", {"model.style=mixtral"}).model.norm,
            NormKind::kRmsNorm);
}

TEST(JobConfigTest, AStyleSizesItsSharedExpertsUnlessTold) {
  const std::string gpt = "model.preset = \"gpt-moe-tiny\"\n";
  EXPECT_EQ(
      parsed(gpt, {"model.style=deepseek-moe", "model.expert_hidden=192"}).model.shared_hidden,
      384);
  EXPECT_EQ(parsed(gpt, {"model.style=deepseek-moe", "model.shared_hidden=64"}).model.shared_hidden,
            64);
  // The preset's own style changes nothing.
  EXPECT_EQ(parsed("model.preset = \"qwen2-57b-a14b\"\nmodel.style = \"qwen-moe\"").model,
            preset("qwen2-57b-a14b").value());
}

TEST(JobConfigTest, EveryPresetSurvivesTheRoundTrip) {
  for (const std::string& name : preset_names()) {
    const JobConfig config = parsed("model.preset = \"" + name + "\"");
    EXPECT_EQ(parsed(to_toml(config)), config) << name;
  }
}

TEST(JobConfigTest, OddValuesSurviveTheRoundTrip) {
  JobConfig config = parsed(
      "", {"data.path=/a \"quoted\" \\ \xc3\xa9.txt", "parallel.stages=2", "parallel.lanes=[1,2]",
           "train.learning_rate=1e-300", "train.epsilon=0.1", "train.initial_loss_scale=1"});
  EXPECT_EQ(parsed(to_toml(config)), config);
}

TEST(JobConfigTest, IdentitiesHoldWhatTheyPromise) {
  const JobConfig base = parsed("", {"train.steps=5"});
  const auto with = [&](const std::string& setting) {
    return parsed("", {"train.steps=5", setting});
  };
  for (const char* setting : {"model.layers=5", "train.seed=2", "train.micro_batches=9"}) {
    EXPECT_NE(model_identity(with(setting)), model_identity(base)) << setting;
    EXPECT_NE(bits_identity(with(setting)), bits_identity(base)) << setting;
  }
  for (const char* setting : {"train.learning_rate=0.5", "parallel.stages=2", "run.threads=2"}) {
    EXPECT_EQ(model_identity(with(setting)), model_identity(base)) << setting;
    EXPECT_NE(bits_identity(with(setting)), bits_identity(base)) << setting;
  }
  for (const char* setting : {"checkpoint.every_steps=3", "data.path=/x", "run.restarts_max=9"}) {
    EXPECT_EQ(bits_identity(with(setting)), bits_identity(base)) << setting;
  }
  EXPECT_THAT(model_identity(base), HasSubstr("model.layers=4\n"));
}

TEST(ConfigErrorTest, BadTomlHasAPlace) {
  EXPECT_THAT(error_of("[train]\nsteps = = 3"), HasSubstr("job.toml:2:9: not TOML: "));
  EXPECT_THAT(error_of("[train]\nsteps = 1\nsteps = 2"), HasSubstr("job.toml:3:"));
}

TEST(ConfigErrorTest, UnknownNames) {
  EXPECT_EQ(error_of("[train]\nstesp = 3"),
            "job.toml:2:1: train.stesp: unknown key, did you mean train.steps?");
  EXPECT_EQ(
      error_of("[data]\nfrobnicate = 3"),
      "job.toml:2:1: data.frobnicate: unknown key, allowed: those of `evermoe config --keys`");
  EXPECT_EQ(
      error_of("[modle]\nlayers = 3"),
      "job.toml:1:2: modle: unknown table, allowed: model, train, data, parallel, protection, "
      "checkpoint, evaluate, run");
  EXPECT_EQ(error_of("layers = 3"),
            "job.toml:1:1: layers: unknown key, did you mean model.layers?");
  EXPECT_EQ(error_of("model = 3"), "job.toml:1:1: model: found 3, allowed: a table");
  EXPECT_EQ(setting_error("train.stesp=3"),
            "--set train.stesp=3: train.stesp: unknown key, did you mean train.steps?");
  EXPECT_EQ(setting_error("train.steps"), "--set train.steps: found no \"=\", allowed: key=value");
  EXPECT_EQ(error_of("\"a\\nb\" = 3"),
            "job.toml:1:1: \"a\\u000Ab\": unknown key, allowed: those of `evermoe config --keys`");
}

TEST(ConfigErrorTest, WrongTypes) {
  EXPECT_EQ(error_of("[train]\nsteps = \"many\""),
            "job.toml:2:1: train.steps: found \"many\", allowed: integer from 1 to 1000000000");
  EXPECT_EQ(error_of("[train]\nsteps = 1.5"),
            "job.toml:2:1: train.steps: found 1.5, allowed: integer from 1 to 1000000000");
  EXPECT_EQ(error_of("[train]\nsteps = {}"),
            "job.toml:2:1: train.steps: found a table, allowed: integer from 1 to 1000000000");
  EXPECT_EQ(error_of("[train]\nbeta1 = true"),
            "job.toml:2:1: train.beta1: found true, allowed: number x with 0 <= x < 1");
  EXPECT_EQ(error_of("[model]\nqkv_bias = 1"),
            "job.toml:2:1: model.qkv_bias: found 1, allowed: true or false");
  EXPECT_EQ(
      error_of("[data]\npath = 2020-01-02"),
      "job.toml:2:1: data.path: found 2020-01-02, allowed: text file or token file (.tokens)");
  EXPECT_EQ(
      error_of("[parallel]\nlanes = [1, \"x\"]"),
      "job.toml:2:1: parallel.lanes: found an array of 2, allowed: integer from 1 to 1024, or "
      "an array with one for each stage");
  EXPECT_EQ(setting_error("train.steps=many"),
            "--set train.steps=many: train.steps: found \"many\", allowed: integer from 1 to "
            "1000000000");
  EXPECT_EQ(setting_error("train.steps="),
            "--set train.steps=: train.steps: found \"\", allowed: integer from 1 to 1000000000");
  EXPECT_THAT(setting_error("data.path=\xff"),
              HasSubstr(": data.path: the value is not UTF-8 text"));
}

TEST(ConfigErrorTest, ValuesOutOfRange) {
  EXPECT_EQ(setting_error("train.steps=0"),
            "--set train.steps=0: train.steps: found 0, allowed: integer from 1 to 1000000000");
  EXPECT_EQ(setting_error("train.seed=-1"),
            "--set train.seed=-1: train.seed: found -1, allowed: integer, at least 0");
  EXPECT_EQ(setting_error("train.micro_batches=0"),
            "--set train.micro_batches=0: train.micro_batches: found 0, allowed: integer from 1 to "
            "65536");
  EXPECT_EQ(setting_error("train.precision=fp8"),
            "--set train.precision=fp8: train.precision: found \"fp8\", allowed: fp32, bf16, fp16, "
            "fp64");
  EXPECT_EQ(
      setting_error("train.learning_rate=nan"),
      "--set train.learning_rate=nan: train.learning_rate: found nan, allowed: number x with 0 "
      "<= x <= 100");
  EXPECT_EQ(setting_error("train.initial_loss_scale=1000"),
            "--set train.initial_loss_scale=1000: train.initial_loss_scale: found 1000, allowed: "
            "power of two from 1 to 2147483648");
  EXPECT_EQ(setting_error("model.hidden=100"),
            "--set model.hidden=100: model.hidden: found 100, allowed: multiple of 64 from 64 to "
            "1048576");
  EXPECT_EQ(setting_error("model.vocabulary=250"),
            "--set model.vocabulary=250: model.vocabulary: found 250, allowed: multiple of 64 from "
            "64 to 16777216");
  EXPECT_EQ(setting_error("model.style=bert"),
            "--set model.style=bert: model.style: found \"bert\", allowed: gpt-moe, qwen-moe, "
            "deepseek-moe, mixtral");
  EXPECT_THAT(setting_error("model.preset=bert"),
              HasSubstr("model.preset: found \"bert\", allowed: gpt-moe-tiny, gpt-moe-small, "));
  EXPECT_EQ(setting_error("data.tokenizer=words"),
            "--set data.tokenizer=words: data.tokenizer: found \"words\", allowed: bytes, or a "
            "SentencePiece .model file");
  EXPECT_EQ(
      setting_error("parallel.lanes=[]"),
      "--set parallel.lanes=[]: parallel.lanes: found [], allowed: integer from 1 to 1024, or "
      "an array with one for each stage");
}

TEST(ConfigErrorTest, ImpossibleShapes) {
  EXPECT_EQ(setting_error("model.top_k=9"),
            "--set model.top_k=9: model.top_k: found 9, allowed: at most model.experts (8)");
  EXPECT_EQ(setting_error("model.heads=7"),
            "job.toml: model.kv_heads: found 2, allowed: a divisor of model.heads (7)");
  EXPECT_EQ(
      setting_error("model.head_dim=18"),
      "--set model.head_dim=18: model.head_dim: found 18, allowed: a width whose product with "
      "model.heads (4) is a multiple of 64");
  EXPECT_EQ(
      setting_error("model.moe_every=5"),
      "--set model.moe_every=5: model.moe_every: found 5, allowed: a value that leaves an MoE "
      "layer among model.layers (4)");
  EXPECT_EQ(setting_error("model.dense_first_layers=4"),
            "--set model.dense_first_layers=4: model.dense_first_layers: found 4, allowed: a value "
            "that leaves an MoE layer among model.layers (4)");
  EXPECT_EQ(error_of("[model]\nlayers = 4096\nexperts = 65536"),
            "job.toml:3:1: model.experts: found 65536, allowed: at most 256 with 4096 MoE layers");
}

TEST(ConfigErrorTest, ImpossibleTopologies) {
  EXPECT_EQ(
      setting_error("parallel.stages=5"),
      "--set parallel.stages=5: parallel.stages: found 5, allowed: at most model.layers (4), so "
      "that each stage has a layer");
  EXPECT_EQ(
      error_of("[parallel]\nstages = 3\nlanes = [1, 2]"),
      "job.toml:3:1: parallel.lanes: found 2 entries, allowed: one integer, or one for each of "
      "parallel.stages (3)");
  EXPECT_EQ(setting_error("parallel.lanes=9"),
            "--set parallel.lanes=9: parallel.lanes: found 9 for stage 0, allowed: at most "
            "model.experts * parallel.expert_replicas (8), so that each lane has an expert");
  EXPECT_EQ(error_of("[parallel]\nstages = 2\nlanes = [2, 1]\nexpert_replicas = 2"),
            "job.toml:4:1: parallel.expert_replicas: found 2, allowed: at most the lanes of every "
            "stage (stage 1 has 1)");
  EXPECT_EQ(
      error_of("[model]\nexperts = 1024\nlayers = 8\n[parallel]\nstages = 8\nlanes = 1024"),
      "job.toml:6:1: parallel.lanes: found 8192 in all, allowed: at most 4096 over all stages");
}

class LoadConfigTest : public testing::Test {
 protected:
  std::string error_of(const std::string& text, const Settings& settings = {}) {
    const std::string path = folder_.write("job.toml", text);
    const absl::Status status = load_config(path, settings).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return without_folder(std::string(status.message()));
  }
  // Messages with "D" for the folder.
  std::string without_folder(std::string text) {
    for (size_t at; (at = text.find(folder_.root())) != std::string::npos;) {
      text.replace(at, folder_.root().size(), "D");
    }
    return text;
  }

  TestFolder folder_;
};

TEST_F(LoadConfigTest, DataIsFoundBesideTheFile) {
  folder_.write("text.txt", std::string(1000, 'x'));
  const std::string path = folder_.write("job.toml", "data.path = \"text.txt\"");
  const absl::StatusOr<JobConfig> config = load_config(path, {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.path, folder_.path("text.txt"));
}

TEST_F(LoadConfigTest, MissingFilesAreNamed) {
  EXPECT_EQ(load_config("/none.toml", {}).status().message(),
            "/none.toml: no such file, allowed: a TOML configuration");
  EXPECT_EQ(error_of(""),
            "D/job.toml: data.path: found \"\", allowed: an existing text file or "
            "token file (.tokens)");
  EXPECT_EQ(error_of("[data]\npath = \"none.txt\""),
            "D/job.toml:2:1: data.path: found \"D/none.txt\" (no such file), allowed: an existing "
            "text file or token file (.tokens)");
  folder_.write("text.txt", std::string(1000, 'x'));
  EXPECT_EQ(error_of("[data]\npath = \"text.txt\"\nvalidation_path = \"b.txt\""),
            "D/job.toml:3:1: data.validation_path: found \"D/b.txt\" (no such file), allowed: an "
            "existing text file or token file (.tokens)");
  EXPECT_EQ(
      error_of("[data]\npath = \"text.txt\"\ntokenizer = \"b.model\""),
      "D/job.toml:3:1: data.tokenizer: found \"D/b.model\" (no such file), allowed: bytes, or "
      "an existing SentencePiece .model file");
}

TEST_F(LoadConfigTest, DataMustBeLongEnough) {
  folder_.write("text.txt", std::string(700, 'x'));
  const std::string text = "[data]\npath = \"text.txt\"\n";
  EXPECT_EQ(error_of(text, {"data.validation_fraction=0.08"}),
            "--set data.validation_fraction=0.08: data.validation_fraction: found 56 tokens, "
            "allowed: at least model.sequence_length + 1 (65)");
  EXPECT_EQ(
      error_of(text, {"model.sequence_length=700"}),
      "D/job.toml:2:1: data.path: found 630 tokens, allowed: at least model.sequence_length + "
      "1 (701)");
}

TEST_F(LoadConfigTest, DataMustFitTheVocabulary) {
  folder_.write("text.txt", std::string(1000, 'x'));
  EXPECT_EQ(error_of("[data]\npath = \"text.txt\"\n[model]\nvocabulary = 128"),
            "D/job.toml:4:1: model.vocabulary: found 128, allowed: at least the vocabulary of "
            "\"D/text.txt\" (256)");
  const std::vector<int32_t> tokens(1000, 5);
  ASSERT_TRUE(write_token_file(folder_.path("a.tokens"), 5000, tokens).ok());
  EXPECT_EQ(error_of("[data]\npath = \"a.tokens\""),
            "D/job.toml: model.vocabulary: found 256, allowed: at least the vocabulary of "
            "\"D/a.tokens\" (5000)");
}

TEST_F(LoadConfigTest, DamagedDataIsRefused) {
  folder_.write("a.tokens", "EVERTOK1 and so on");
  EXPECT_EQ(error_of("[data]\npath = \"a.tokens\""),
            "D/job.toml:2:1: data.path: D/a.tokens: has 18 bytes, a header has 64, allowed: an "
            "existing text file or token file (.tokens)");
  EXPECT_EQ(error_of("[data]\npath = \".\""),
            "D/job.toml:2:1: data.path: D/: is a folder, allowed: an existing text file or token "
            "file (.tokens)");
}

TEST(IdentityDifference, NamesEveryKeyOfThisSideOnce) {
  EXPECT_EQ(identity_difference("a=1\nb=2\nc=3\n", "a=1\nb=5\nd=4\n"),
            "b is 2 there and 5 here, d is not set there and 4 here");
  EXPECT_EQ(identity_difference("a=1\nmore=2\n", "a=1\n"), "");
}

}  // namespace
}  // namespace evermoe
