// Frozen operators cost nothing and change nothing: the gradients of the others keep their bits,
// whichever are frozen (MoEtion section 3.2: sparse-to-dense conversion).

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "tensor/fake_device_testing.h"
#include "tensor/host_bytes.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

constexpr double kUntouched = 7;
constexpr int kSubsets = 8;

// A subset of the operators, the same on every rank; in the end none is left.
bool is_frozen(const std::string& name, int subset) {
  if (subset == kSubsets - 1) return true;
  const std::string key = absl::StrCat(name, "/", subset);
  return fingerprint(std::as_bytes(std::span(key.data(), key.size()))).low % 4 <
         static_cast<uint64_t>(subset % 4);
}

absl::Status compare_subset(TrainingRank& rank, const std::map<std::string, at::Tensor>& expected,
                            int subset) {
  ActiveOperators active;
  for (const StageOperator& part : rank.trainer().operators())
    active.push_back(!is_frozen(part.name.substr(0, part.name.find('[')), subset));
  for (OperatorState* state : rank.trainer().operator_states()) {
    at::Tensor gradient = state->gradient();
    gradient.fill_(kUntouched);
  }
  RETURN_IF_ERROR(rank.train(active).status());
  for (OperatorState* state : rank.trainer().operator_states()) {
    const std::string& name = state->spec().name;
    EXPECT_EQ(state->is_frozen(), is_frozen(name, subset)) << name;
    if (state->is_frozen()) {
      EXPECT_TRUE(state->gradient().eq(kUntouched).all().item<bool>())
          << name << " is frozen, but was worked on";
    } else {
      EXPECT_TRUE(at::equal(state->shard_gradient(), expected.at(name)))
          << name << ", subset " << subset;
    }
  }
  return absl::OkStatus();
}

void compare_subsets(TrainingCluster& cluster, const JobConfig& config) {
  const ClusterResult result = cluster.run(config, [](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(1));
    RETURN_IF_ERROR(rank.train(rank.all_active()).status());
    std::map<std::string, at::Tensor> expected;
    for (OperatorState* state : rank.trainer().operator_states())
      expected[state->spec().name] = state->shard_gradient().clone();
    for (int subset = 0; subset < kSubsets; ++subset)
      RETURN_IF_ERROR(compare_subset(rank, expected, subset));
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

using FrozenCase = std::tuple<std::string, std::string>;  // style, precision
class FrozenOperatorsTest : public testing::TestWithParam<FrozenCase> {};

TEST_P(FrozenOperatorsTest, GradientsOfTheOthersKeepTheirBits) {
  const auto& [style, precision] = GetParam();
  const JobConfig config = tiny_config(
      style, {"train.precision=" + precision, "train.micro_batches=5", "train.micro_batch_size=1",
              "model.sequence_length=16", "parallel.stages=2", "parallel.lanes=[2, 3]",
              "parallel.expert_replicas=2"});
  TrainingCluster cluster("frozen");
  compare_subsets(cluster, config);
}
INSTANTIATE_TEST_SUITE_P(All, FrozenOperatorsTest,
                         testing::Combine(testing::Values("gpt-moe", "qwen-moe", "deepseek-moe",
                                                          "mixtral"),
                                          testing::Values("fp32", "bf16")),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A device has one product for all experts of a layer: in a group of lanes put off, alone not.
TEST(FrozenExpertsTest, GroupedProductsKeepTheBitsOfTheOthers) {
  for (const char* lanes : {"parallel.lanes=1", "parallel.lanes=2"}) {
    const JobConfig config = tiny_config(
        "qwen-moe", {"train.precision=bf16", "train.micro_batches=2", "train.micro_batch_size=1",
                     "model.sequence_length=16", "parallel.stages=1", lanes});
    TrainingCluster cluster("frozen_grouped");
    if (cluster.device().is_cpu()) cluster.set_device(fake_device());
    compare_subsets(cluster, config);
  }
}

}  // namespace
}  // namespace evermoe
