// What a plan is asked for: a model, wishes for its layout, a cluster.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "planner/plan/plan_input.h"
#include "planner/plan/plan_testing.h"
#include "planner/plan/planner_input.h"
#include "planner/simulate/run_forecast.h"

namespace evermoe {
namespace {

TEST(PlanInputTest, WishesForTheLayoutAreChecked) {
  PlannedModel model = load_planned_model(real_files(), "deepseek-v3").value();
  EXPECT_TRUE(model.shape.latent.has_value());
  EXPECT_TRUE(
      apply_layout({.sequences = 15360, .tensor_parallel = 2, .recompute = "layer"}, model).ok());
  EXPECT_EQ(model.sequences, 15360);
  EXPECT_EQ(model.recompute, ActivationRecompute::kLayer);
  EXPECT_EQ(apply_layout({.recompute = "some"}, model).message(),
            "recompute: found \"some\", allowed: none, experts, layer, auto");
  PlannedModel configured = load_planned_model(real_files(), std::string(EVERMOE_SOURCE_DIR) +
                                                                 "/configs/mixtral-tiny.toml")
                                .value();
  EXPECT_EQ(apply_layout({.sequences = 5}, configured).message(),
            "sequences: found a configured batch as well, allowed: with a preset");
}

TEST(PlanInputTest, AModelIsAPresetOrAConfiguration) {
  const auto named = load_planned_model(real_files(), "mixtral-8x7b");
  ASSERT_TRUE(named.ok());
  EXPECT_FALSE(named->layout.has_value());
  const auto file = load_planned_model(
      real_files(), std::string(EVERMOE_SOURCE_DIR) + "/configs/mixtral-tiny.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->layout.has_value());
  EXPECT_EQ(load_planned_model(real_files(), "no-such").status().message().substr(0, 68),
            "model: found \"no-such\", allowed: a file ending in .toml, or one of g");
  EXPECT_EQ(load_planned_model(real_files(), "/no/such.toml").status().message(),
            "/no/such.toml: no such file, allowed: a job's configuration or the name of a preset");
}

TEST(PlanInputTest, AConfiguredLayoutMustFitTheCluster) {
  const auto file = load_planned_model(
      real_files(), std::string(EVERMOE_SOURCE_DIR) + "/configs/mixtral-tiny.toml");
  ASSERT_TRUE(file.ok());
  ClusterSpec cluster = default_cluster();
  cluster.nodes = 1000;
  const auto step = plan_step(*file, cluster);
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(exit_code(step.status()), 2);
  cluster.nodes = file->layout->gpus();
  cluster.gpus_per_node = 1;
  EXPECT_TRUE(plan_step(*file, cluster).ok());
}

TEST(PlannedJobTest, SettingsChangeAPresetAndAConfiguration) {
  const auto job = load_planned_job(real_files(), "mixtral-8x7b",
                                    {"protection.strategy=sparse", "protection.window=4"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->protection.window, 4);
  EXPECT_EQ(job->model.precision, Precision::kBf16);
  EXPECT_FALSE(job->model.layout.has_value());
  // A preset has no limits but those of the cluster and those that are set.
  EXPECT_EQ(job->protection.memory_budget, 0);
  EXPECT_TRUE(forecast_run(job->model, job->protection, job->checkpoint,
                           changed(default_cluster(), {"cluster.nodes=8"}, "").value(),
                           {.simulated_runs = 1})
                  .ok());
  EXPECT_EQ(load_planned_job(real_files(), "mixtral-8x7b", {"protection.memory_budget=2GiB"})
                ->protection.memory_budget,
            int64_t{2} << 30);
  const auto placed =
      load_planned_job(real_files(), "mixtral-8x7b",
                       {"parallel.stages=4", "parallel.lanes=8", "train.micro_batches=64"});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->model.layout->lanes, std::vector<int>(4, 8));
  EXPECT_EQ(placed->model.sequences, 64 * 2);
  EXPECT_EQ(
      message_of(load_planned_job(real_files(), "mixtral-8x7b", {"protection.windw=6"}).status())
          .substr(0, 29),
      "--set protection.windw=6: pro");
}

}  // namespace
}  // namespace evermoe
