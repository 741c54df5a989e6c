// What texts and settings are refused with: the place, what was found, what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "config/parse_config_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

std::string setting_error(const std::string& setting) { return error_of("", {setting}); }

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
  EXPECT_EQ(error_of("[modle]\nlayers = 3"),
            "job.toml:1:2: modle: unknown table, allowed: model, train, data, parallel, experts, "
            "protection, elastic, stragglers, checkpoint, evaluate, run, control");
  EXPECT_EQ(error_of("layers = 3"),
            "job.toml:1:1: layers: unknown key, did you mean model.layers?");
  EXPECT_EQ(error_of("model = 3"), "job.toml:1:1: model: found 3, allowed: a table");
  EXPECT_EQ(setting_error("train.stesp=3"),
            "--set train.stesp=3: train.stesp: unknown key, did you mean train.steps?");
  EXPECT_EQ(setting_error("train.steps"), "--set train.steps: found no \"=\", allowed: key=value");
  EXPECT_EQ(error_of("\"a\\nb\" = 3"),
            "job.toml:1:1: \"a\\u000Ab\": unknown key, allowed: those of `evermoe config --keys`");
}

TEST(ConfigErrorTest, FilesOfAStoreGoTogetherWithTls) {
  EXPECT_THAT(error_of("[control]\nstore = \"http://h:1\""),
              HasSubstr("allowed: text: empty, etcd://HOST:PORT,HOST:PORT,... or, with TLS"));
  EXPECT_THAT(error_of("[control]\nstore = \"etcds://h:1\""),
              HasSubstr("control.store_authority: found nothing, allowed: a PEM file"));
  EXPECT_THAT(error_of("[control]\nstore = \"etcd://h:1\"\nstore_authority = \"a.pem\""),
              HasSubstr("control.store_authority: found "));
  EXPECT_THAT(error_of("[control]\nstore = \"etcds://h:1\"\nstore_authority = \"a.pem\"\n"
                       "store_key = \"k.pem\""),
              HasSubstr("control.store_certificate: found nothing"));
}

TEST(ConfigErrorTest, ALeaseIsLongerThanWhatLeavingTheSeatTakes) {
  for (const char* const value : {"2", "121", "5.5"}) {
    EXPECT_EQ(setting_error(absl::StrCat("control.lease_seconds=", value)),
              absl::StrCat("--set control.lease_seconds=", value, ": control.lease_seconds: found ",
                           value, ", allowed: integer from 3 to 120"));
  }
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
  EXPECT_EQ(setting_error("train.precision=fp4"),
            "--set train.precision=fp4: train.precision: found \"fp4\", allowed: fp32, bf16, fp16, "
            "fp64, fp8");
  EXPECT_EQ(setting_error("train.master=bf16"),
            "--set train.master=bf16: train.master: found \"bf16\", allowed: \"auto\" or \"fp32\" "
            "with train.precision = \"fp32\"");
  EXPECT_EQ(
      setting_error("train.moments=fp4"),
      "--set train.moments=fp4: train.moments: found \"fp4\", allowed: auto, fp32, bf16, fp16, "
      "fp8+fp16, fp8");
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

}  // namespace
}  // namespace evermoe
