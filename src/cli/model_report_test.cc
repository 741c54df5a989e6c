#include "cli/reports/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

JobConfig config_of(const std::vector<std::string>& settings) {
  return parse_config("", "test", "/", settings).value();
}

TEST(ModelReportTest, KindsAndStagesAddUpToTheModel) {
  for (const char* preset :
       {"qwen-moe-tiny", "gpt-moe-tiny", "deepseek-moe-tiny", "mixtral-8x7b"}) {
    const ModelReport report = report_model(config_of(
        {std::string("model.preset=") + preset, "parallel.stages=3", "parallel.lanes=2"}));
    int64_t in_kinds = 0, in_stages = 0;
    for (const auto& kind : report.kinds) in_kinds += kind.parameters;
    for (const auto& stage : report.stages) in_stages += stage.parameters;
    EXPECT_EQ(in_kinds, report.counts.total) << preset;
    EXPECT_EQ(in_stages, report.counts.total) << preset;
  }
}

TEST(ModelReportTest, AllRanksTogetherHoldTheStateOfTheModel) {
  // One lane for each stage: nothing is replicated, so the ranks add up to the whole.
  for (const char* precision : {"fp32", "bf16", "fp16", "fp64"}) {
    const ModelReport report = report_model(config_of(
        {"parallel.stages=4", "parallel.lanes=1", std::string("train.precision=") + precision}));
    int64_t sum = 0;
    for (const auto& stage : report.stages) sum += stage.rank_max.sum();
    for (const auto& row : report.precisions) {
      if (row.name == precision) {
        EXPECT_EQ(sum, row.bytes.sum()) << precision;
      }
    }
  }
}

TEST(ModelReportTest, BytesOfEachPrecision) {
  const ModelReport report = report_model(config_of({}));
  const auto per_element = [&](size_t row, int64_t StateBytes::*part) {
    return static_cast<double>(report.precisions[row].bytes.*part) /
           (static_cast<double>(report.precisions[0].bytes.weights) / 4);
  };
  EXPECT_EQ(per_element(0, &StateBytes::optimizer), 8);  // the master weights are the weights
  EXPECT_EQ(per_element(1, &StateBytes::weights), 2);
  EXPECT_EQ(per_element(1, &StateBytes::gradients), 4);
  EXPECT_EQ(per_element(1, &StateBytes::optimizer), 12);
  EXPECT_EQ(per_element(3, &StateBytes::optimizer), 16);
}

TEST(ModelReportTest, LanesShareExpertsAndOptimizerState) {
  const ModelReport one = report_model(config_of({"parallel.lanes=1"}));
  const ModelReport four = report_model(config_of({"parallel.lanes=4"}));
  EXPECT_EQ(one.stages[0].experts_per_lane_max, 8);
  EXPECT_EQ(four.stages[0].experts_per_lane_max, 2);
  EXPECT_LE(four.stages[0].rank_max.optimizer, one.stages[0].rank_max.optimizer / 4 + 4096 * 64);
  EXPECT_LT(four.stages[0].rank_max.weights, one.stages[0].rank_max.weights);
}

TEST(ModelReportTest, ActivationsFollowRoundsInFlightAndWhatIsKept) {
  const auto of = [](const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"parallel.stages=2", "train.micro_batches=8"};
    settings.insert(settings.end(), more.begin(), more.end());
    return report_model(config_of(settings)).stages;
  };
  const auto all = of({});
  // The first stage holds two rounds and no head.
  EXPECT_GT(all[0].activations, all[1].activations);
  EXPECT_LT(of({"train.recompute=experts"})[0].activations, all[0].activations);
  EXPECT_LT(of({"train.recompute=layer"})[0].activations,
            of({"train.recompute=experts"})[0].activations);
  EXPECT_LT(of({"train.precision=bf16"})[0].activations, all[0].activations);
  EXPECT_EQ(of({"train.deferred_bytes=1MiB"})[0].deferred, 1 << 20);
  EXPECT_EQ(report_model(config_of({"parallel.stages=1"})).stages[0].deferred, 0);
}

// What waits is bounded, and inspect says so.
TEST(ModelReportTest, MessagesThatWaitAreCounted) {
  const auto of = [](const std::vector<std::string>& settings) {
    return report_model(config_of(settings)).waiting_messages;
  };
  EXPECT_EQ(of({"parallel.stages=1", "parallel.lanes=1"}), 0);
  EXPECT_EQ(of({"parallel.lanes=2", "parallel.transport=unix"}), int64_t{128} << 20);
  EXPECT_EQ(of({"parallel.lanes=2", "parallel.transport=auto"}), int64_t{320} << 20);
  const JobConfig config = config_of({"parallel.lanes=2", "parallel.transport=ucx"});
  EXPECT_THAT(to_text(report_model(config), config),
              testing::HasSubstr("for protection (protection.memory_budget), 128"));
}

}  // namespace
}  // namespace evermoe
