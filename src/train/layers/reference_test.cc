// Every topology computes the gradients and updates of the plain torch reference.

#include <gtest/gtest.h>

#include "base/error.h"
#include "train/layers/reference_model_testing.h"
#include "train/step/learning_rate.h"
#include "train/step/training_cluster_testing.h"
#include "train/step/verdict.h"

namespace evermoe {
namespace {

// FP64 asks whether it is the same function, FP32 allows for sums in another order.
// Observed: 1.5e-15 and 4.4e-7.
constexpr double kFp64Tolerance = 1e-12;
constexpr double kFp32Tolerance = 2e-6;

// Largest difference relative to the operator's largest value.
double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const double scale = b.to(at::kDouble).abs().max().item<double>();
  if (scale == 0) return a.abs().max().item<double>();
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() / scale;
}

std::vector<std::pair<at::Tensor, at::Tensor>> micro_batches_of(const JobConfig& config,
                                                                const TokenParts& tokens,
                                                                Step step) {
  const BatchReader reader(config, tokens.training, tokens.validation, at::kCPU);
  std::vector<std::pair<at::Tensor, at::Tensor>> all;
  for (int32_t m = 0; m < config.train.micro_batches; ++m) {
    const MicroBatchTokens batch = reader.training(step, MicroBatch(m));
    all.push_back({batch.inputs, batch.targets.view_as(batch.inputs)});
  }
  return all;
}

struct Case {
  std::string name;
  std::string style;
  std::vector<std::string> settings;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class ReferenceTest : public testing::TestWithParam<Case> {
 protected:
  JobConfig config(const std::string& precision, const std::string& more = "train.seed=11") const {
    std::vector<std::string> settings = {"train.precision=" + precision, "train.micro_batches=5",
                                         "train.micro_batch_size=1", "model.sequence_length=64",
                                         more};
    settings.insert(settings.end(), GetParam().settings.begin(), GetParam().settings.end());
    return tiny_config(GetParam().style, settings);
  }

  void compare_gradients(const std::string& precision, at::ScalarType type, double tolerance) {
    const JobConfig job = config(precision);
    TrainingCluster cluster("reference");
    double loss = 0;
    const ClusterResult result = cluster.run(job, [&](TrainingRank& rank) -> absl::Status {
      ASSIGN_OR_RETURN(const Findings findings, rank.train(rank.all_active()));
      const int layers = job.model.moe_layers_before(job.model.layers);
      if (rank.rank() == Rank(0))
        loss = from_findings(findings, static_cast<size_t>(layers)).loss_sum / 5;
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    ReferenceModel reference(job.model, job.train.seed, type);
    const double expected =
        reference.step(micro_batches_of(job, cluster.tokens(), Step(0)), job.train, 0, false);
    EXPECT_NEAR(loss, expected, tolerance * expected);
    for (const OperatorSpec& op : reference.operators()) {
      EXPECT_LE(
          relative_difference(result.gradients.at(op.name), reference.flat_gradients(op.name)),
          tolerance)
          << op.name;
    }
  }
};

TEST_P(ReferenceTest, GradientsAgreeInFp64) {
  compare_gradients("fp64", at::kDouble, kFp64Tolerance);
}
TEST_P(ReferenceTest, GradientsAgreeInFp32) {
  compare_gradients("fp32", at::kFloat, kFp32Tolerance);
}

TEST_P(ReferenceTest, ThreeUpdatesAgreeInFp64) {
  // A small norm limit, so that clipping takes part.
  const JobConfig job = config("fp64", "train.clip_norm=0.05");
  TrainingCluster cluster("updates");
  const ClusterResult result = cluster.run(job, [](TrainingRank& rank) { return rank.steps(3); });
  ASSERT_TRUE(result.status.ok()) << result.status;
  ReferenceModel reference(job.model, job.train.seed, at::kDouble);
  for (int i = 0; i < 3; ++i) {
    reference.step(micro_batches_of(job, cluster.tokens(), Step(i)), job.train,
                   learning_rate(job.train, Step(i)), true);
  }
  for (const OperatorSpec& op : reference.operators()) {
    EXPECT_LE(relative_difference(result.weights.at(op.name), reference.flat_weights(op.name)),
              1e-8)
        << op.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Topologies, ReferenceTest,
    testing::Values(
        Case{"qwen_1x1", "qwen-moe", {}}, Case{"qwen_1x2", "qwen-moe", {"parallel.lanes=2"}},
        Case{"qwen_2x1", "qwen-moe", {"parallel.stages=2"}},
        Case{"qwen_2x2", "qwen-moe", {"parallel.stages=2", "parallel.lanes=2"}},
        Case{"qwen_2x3_replicas",
             "qwen-moe",
             {"parallel.stages=2", "parallel.lanes=3", "parallel.expert_replicas=2"}},
        Case{"qwen_1x3_by_load",
             "qwen-moe",
             {"parallel.lanes=3", "experts.replicas=by-load", "experts.faults=1",
              "experts.rebalance_every_steps=1", "experts.rebalance_gain=1"}},
        Case{"gpt_unequal_widths", "gpt-moe", {"parallel.stages=2", "parallel.lanes=[3, 1]"}},
        Case{"deepseek_unequal_widths",
             "deepseek-moe",
             {"parallel.stages=2", "parallel.lanes=[1, 2]"}},
        Case{"mixtral_2x2", "mixtral", {"parallel.stages=2", "parallel.lanes=2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
