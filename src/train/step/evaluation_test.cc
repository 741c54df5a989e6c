// The validation loss is the mean over the targets that it says, whatever the topology.

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "config/job_data.h"
#include "data/sample_order.h"
#include "train/layers/reference_model_testing.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

constexpr double kFp64Tolerance = 1e-12;
constexpr int64_t kLength = 120;

JobConfig evaluated_job(const std::string& micro_batches,
                        const std::vector<std::string>& parallel) {
  std::vector<std::string> settings = {
      "train.precision=fp64", "train.micro_batches=4", "train.micro_batch_size=4",
      absl::StrCat("model.sequence_length=", kLength), "evaluate.micro_batches=" + micro_batches};
  settings.insert(settings.end(), parallel.begin(), parallel.end());
  return tiny_config("qwen-moe", settings);
}

const std::vector<std::vector<std::string>> kTopologies = {
    {}, {"parallel.lanes=3"}, {"model.layers=3", "parallel.stages=3", "parallel.lanes=[2, 1, 2]"}};

// Of the initial state, as every rank has it.
double validation_loss(const TrainingCluster& cluster, const JobConfig& config) {
  std::mutex mutex;
  std::set<double> losses;
  const absl::Status status = cluster
                                  .run(config,
                                       [&](TrainingRank& self) -> absl::Status {
                                         const auto loss = self.evaluate();
                                         const std::lock_guard lock(mutex);
                                         if (loss.ok()) losses.insert(*loss);
                                         return loss.status();
                                       })
                                  .status;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(losses.size(), 1u);
  return losses.empty() ? -1 : *losses.begin();
}

// Sum of the losses of `targets` targets from `begin` on, in one sequence.
double loss_sum(const ReferenceModel& model, const TokenPart& text, int64_t begin,
                int64_t targets) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> tokens(static_cast<size_t>(targets + 1));
  text.read(begin, tokens);
  const at::Tensor row = at::tensor(tokens).view({1, targets + 1});
  const auto losses = model.forward(row.narrow(1, 0, targets), row.narrow(1, 1, targets));
  return losses.loss.item<double>() * static_cast<double>(targets);
}

class EvaluationTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(EvaluationTest, AllIsTheMeanOverEveryTargetOnce) {
  const TrainingCluster cluster("evaluate-all");
  const TokenPart text = cluster.tokens().validation;
  const int64_t targets = text.size() - 1;
  const int64_t rest = targets % kLength;
  ASSERT_GT(rest, 0);
  for (const auto& parallel : kTopologies) {
    const JobConfig config = evaluated_job("all", parallel);
    ASSERT_NE((targets / kLength + 1) % config.train.micro_batch_size, 0)
        << "the last micro-batch is to be a partial one";
    const ReferenceModel model(config.model, config.train.seed, at::kDouble);
    double sum = 0;
    for (int64_t begin = 0; begin + kLength < text.size(); begin += kLength)
      sum += loss_sum(model, text, begin, kLength);
    // What a sequence sees before a target does not change with what comes behind it.
    const int64_t last = targets - kLength;
    sum += loss_sum(model, text, last, kLength) - loss_sum(model, text, last, kLength - rest);
    EXPECT_NEAR(validation_loss(cluster, config), sum / static_cast<double>(targets),
                kFp64Tolerance)
        << config.parallel.world_size() << " workers";
  }
}

TEST_F(EvaluationTest, AFewMicroBatchesAreSpreadOverTheText) {
  const TrainingCluster cluster("evaluate-some");
  const TokenPart text = cluster.tokens().validation;
  for (const auto& parallel : kTopologies) {
    const JobConfig config = evaluated_job("2", parallel);
    const ReferenceModel model(config.model, config.train.seed, at::kDouble);
    const int64_t windows = window_count(text.size(), kLength);
    ASSERT_GT(windows, 8);
    double sum = 0;
    for (int64_t i = 0; i < 8; ++i)
      sum += loss_sum(model, text, i * windows / 8 * kLength, kLength);
    EXPECT_NEAR(validation_loss(cluster, config), sum / static_cast<double>(8 * kLength),
                kFp64Tolerance)
        << config.parallel.world_size() << " workers";
  }
}

}  // namespace
}  // namespace evermoe
