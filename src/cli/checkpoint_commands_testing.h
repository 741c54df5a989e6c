// For tests: checkpoints on disk, and the real binary on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/fake_state_testing.h"
#include "cli/run_binary_testing.h"
#include "config/job_config.h"

namespace evermoe {

inline JobConfig small_job(const std::string& style) {
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
    const auto job = open_job(out, world);
    EXPECT_TRUE(job->prepare(state_, position(step), cut).ok());
    EXPECT_TRUE(job->publish(Step(step)).ok());
    return folder_.at(out);
  }

  // The same but for what is left out.
  std::string save_partial(const std::string& out, int64_t step, int world,
                           const FakePartial& partial) {
    const auto job = open_job(out, world);
    EXPECT_TRUE(job->prepare_partial(state_, position(step), partial).ok());
    EXPECT_TRUE(job->publish(Step(step)).ok());
    return folder_.at(out);
  }

  // "D" stands for the test's folder in what is returned.
  BinaryResult run(const std::vector<std::string>& arguments) {
    const BinaryResult result = run_binary(arguments, folder_.path());
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

  std::unique_ptr<FakeJob> open_job(const std::string& out, int world) {
    return FakeJob::open(real_files(), {.directory = folder_.at(out + "/checkpoints"),
                                        .world_size = world,
                                        .state_types = state_.state_types,
                                        .compute_type = state_.compute_type,
                                        .topology = "2 stages, lanes 1 1"})
        .value();
  }
  TrainingPosition position(int64_t step) const {
    TrainingPosition result = state_.position(Step(step));
    result.configuration = configuration_;
    result.validation_loss = 2.5;
    return result;
  }

  FakeState state_;
  std::string configuration_;
  ScratchFolder folder_;
};

}  // namespace evermoe
