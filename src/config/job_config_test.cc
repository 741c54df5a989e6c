#include "config/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "config/identity.h"
#include "config/parse_config_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_EQ(error_of("", {"evaluate.micro_batches=0"}),
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

TEST(IdentityDifference, NamesEveryKeyOfThisSideOnce) {
  EXPECT_EQ(identity_difference("a=1\nb=2\nc=3\n", "a=1\nb=5\nd=4\n"),
            "b is 2 there and 5 here, d is not set there and 4 here");
  EXPECT_EQ(identity_difference("a=1\nmore=2\n", "a=1\n"), "");
}

}  // namespace
}  // namespace evermoe
