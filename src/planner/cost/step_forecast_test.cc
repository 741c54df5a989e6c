// Steps from first principles, against published numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/cost/step_forecast.h"

namespace evermoe {
namespace {

ClusterSpec a100_cluster(int nodes) {
  ClusterSpec cluster = default_cluster();
  cluster.nodes = nodes;
  cluster.nic_bytes_per_second = 10e9;
  return cluster;
}

// MoEtion's models on its 12 nodes of 8 A100 (512 sequences of 2048): step times within a factor
// of 1.4 of what its tables imply, although nothing but shapes and data sheets went in.
TEST(StepForecastTest, MoetionsStepTimesFromFirstPrinciples) {
  struct Row {
    const char* preset;
    double seconds;
  };
  for (const Row& row : {Row{"moe-llava-2.9b-language", 1.7}, Row{"gpt-moe-7.3b", 2.1},
                         Row{"qwen1.5-moe-a2.7b", 2.5}, Row{"deepseek-moe-16b", 2.9}}) {
    ModelShape shape = preset(row.preset).value();
    shape.sequence_length = 2048;
    const ClusterSpec cluster = a100_cluster(12);
    const auto layout = choose_layout(shape, cluster, {.sequences = 512});
    ASSERT_TRUE(layout.ok()) << layout.status();
    const auto step = forecast_step(shape, *layout, cluster);
    ASSERT_TRUE(step.ok());
    EXPECT_NEAR(std::log(step->parts.step_seconds() / row.seconds), 0, std::log(1.4)) << row.preset;
    EXPECT_LT(step->profile.gpu_bytes(), 80e9);
    EXPECT_GT(step->parts.used_flops_share, 0.1);
    EXPECT_LT(step->parts.used_flops_share, cluster.efficiency);
  }
}

TEST(StepForecastTest, AllStateIsSomewhere) {
  const ModelShape shape = preset("gpt-moe-7.3b").value();
  const ClusterSpec cluster = a100_cluster(1);
  const JobLayout layout{.lanes = {2, 2, 2, 2}, .micro_batches = 8};
  const auto step = forecast_step(shape, layout, cluster);
  ASSERT_TRUE(step.ok()) << step.status();
  double full = 0, compute = 0;
  for (const auto& operators : step->profile.operators_of_stage) {
    for (const OperatorProfile& op : operators) {
      full += 2 * static_cast<double>(op.cost.full_bytes);
      compute += 2 * static_cast<double>(op.cost.compute_bytes);
    }
  }
  // 16 experts per lane and 2 lanes: both lanes are alike, so twice one lane is everything.
  const double parameters = static_cast<double>(count_parameters(shape).total);
  EXPECT_NEAR(full / parameters, 14, 0.02);
  EXPECT_NEAR(compute / parameters, 2, 0.01);
  EXPECT_NEAR(step->profile.state_bytes, 12 * parameters, 1);
}

TEST(StepForecastTest, WrongLayoutsAreNamed) {
  const ModelShape shape = preset("gpt-moe-tiny").value();
  EXPECT_EQ(forecast_step(shape, {.lanes = {2, 2}}, a100_cluster(1)).status().message(),
            "layout: found 4 ranks, allowed: the cluster's 8 GPUs (1 nodes of 8)");
  EXPECT_FALSE(forecast_step(shape, {.lanes = std::vector<int>(8, 1)}, a100_cluster(1)).ok());
  EXPECT_FALSE(forecast_step(shape, {.lanes = {8}, .expert_replicas = 9}, a100_cluster(1)).ok());
}

TEST(StepForecastTest, ALayoutThatFitsNoMemoryIsRefusedWithWhatItWouldNeed) {
  const auto layout =
      choose_layout(preset("mixtral-8x7b").value(), a100_cluster(1), {.sequences = 64});
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().code(), NoCapacity("").code());
  EXPECT_NE(layout.status().message().find("GB of each GPU"), absl::string_view::npos)
      << layout.status();
  EXPECT_FALSE(
      choose_layout(preset("gpt-moe-tiny").value(), a100_cluster(1), {.sequences = 3}).ok());
}

ClusterSpec h800_cluster() {
  ClusterSpec cluster = default_cluster();
  cluster.gpu = gpu_spec("H800").value();
  cluster.nodes = 256;
  cluster.nic_bytes_per_second = 400e9;  // 8 InfiniBand cards of 400 Gb/s
  return cluster;
}

// 14.8 T tokens in 2.7 M hours of an H800 (as MoEtion quotes the model's paper): 1,523 tokens a
// second and GPU. It trained with 16 pipeline stages, 64-way expert parallelism, 15,360 sequences a
// step, no tensor parallelism and FP8 products; the model here has BF16 products at half of their
// peak and overlaps nothing, so it says less.
TEST(StepForecastTest, DeepSeekV3FitsWithRecomputation) {
  const CostShape shape = cost_preset("deepseek-v3").value();
  JobLayout layout{
      .lanes = std::vector<int>(16, 128), .expert_replicas = 2, .micro_batches = 15360};
  EXPECT_GT(forecast_step(shape, layout, h800_cluster())->profile.gpu_bytes(),
            usable_gpu_bytes(h800_cluster()));
  layout.recompute = ActivationRecompute::kLayer;
  const auto step = forecast_step(shape, layout, h800_cluster());
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_LT(step->profile.gpu_bytes(), usable_gpu_bytes(h800_cluster()));
  const double tokens = 15360.0 * 4096 / step->parts.step_seconds() / 2048,
               published = 14.8e12 / (2.7e6 * 3600);
  EXPECT_NEAR(published, 1523, 1);
  EXPECT_GT(tokens / published, 0.35);
  EXPECT_LT(tokens / published, 1.1);
  const auto chosen = choose_layout(shape, h800_cluster(), {.sequences = 15360});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->tensor_parallel, 1);
  EXPECT_LE(forecast_step(shape, *chosen, h800_cluster())->parts.step_seconds(),
            step->parts.step_seconds() * (1 + 1e-9));
}

TEST(StepForecastTest, RecomputationTradesTimeForMemory) {
  const CostShape shape = preset("mixtral-8x7b").value();
  JobLayout layout{.lanes = {8, 8, 8, 8}, .micro_batches = 64};
  std::vector<double> seconds, bytes;
  for (const auto recompute :
       {ActivationRecompute::kNone, ActivationRecompute::kExperts, ActivationRecompute::kLayer}) {
    layout.recompute = recompute;
    const auto step = forecast_step(shape, layout, a100_cluster(4));
    seconds.push_back(step->parts.pipeline_seconds);
    bytes.push_back(step->profile.activation_bytes);
  }
  EXPECT_LT(seconds[0], seconds[1]);
  EXPECT_LT(seconds[1], seconds[2]);
  // A forward pass more of three: a third, with messages between stages and the head left out.
  EXPECT_NEAR(seconds[2] / seconds[0], 4.0 / 3, 0.05);
  EXPECT_GT(bytes[0], bytes[1]);
  EXPECT_GT(bytes[1], 2 * bytes[2]);
}

// Every GPU of a lane has its part of everything; what they exchange inside the node costs time.
TEST(StepForecastTest, TensorParallelismDividesALane) {
  const CostShape shape = preset("mixtral-8x7b").value();
  const JobLayout whole{.lanes = {8, 8, 8, 8}, .micro_batches = 64};
  JobLayout shared{.lanes = {2, 2, 2, 2}, .tensor_parallel = 4, .micro_batches = 64};
  EXPECT_EQ(shared.gpus(), whole.gpus());
  ClusterSpec cluster = a100_cluster(4);
  const auto apart =
      forecast_step(shape, {.lanes = {2, 2, 2, 2}, .micro_batches = 64}, a100_cluster(1));
  const auto together = forecast_step(shape, shared, cluster);
  ASSERT_TRUE(together.ok()) << together.status();
  for (const auto part : {&JobProfile::weight_bytes, &JobProfile::gradient_bytes,
                          &JobProfile::optimizer_bytes, &JobProfile::activation_bytes}) {
    EXPECT_NEAR((together->profile.*part) / (apart->profile.*part), 0.25, 1e-6);
  }
  EXPECT_NEAR(together->profile.rank_state_bytes() / apart->profile.rank_state_bytes(), 0.25, 1e-6);
  EXPECT_EQ(together->profile.state_bytes, apart->profile.state_bytes);
  EXPECT_EQ(together->profile.lanes_per_node, 2);
  EXPECT_GT(together->parts.pipeline_seconds, apart->parts.pipeline_seconds / 4);
  // With a fabric that costs nothing it would be a quarter.
  cluster.gpu.fabric_bytes_per_second = 1e18;
  cluster.nic_bytes_per_second = 1e18;
  ClusterSpec one = a100_cluster(1);
  one.gpu.fabric_bytes_per_second = one.nic_bytes_per_second = 1e18;
  const double ideal = forecast_step(shape, {.lanes = {2, 2, 2, 2}, .micro_batches = 64}, one)
                           ->parts.pipeline_seconds /
                       4;
  EXPECT_NEAR(forecast_step(shape, shared, cluster)->parts.pipeline_seconds / ideal, 1, 0.02);
  shared.tensor_parallel = 3;
  EXPECT_NE(forecast_step(shape, shared, cluster)
                .status()
                .message()
                .find("tensor parallelism of degree 3, allowed: divisors of"),
            std::string::npos);
}

}  // namespace
}  // namespace evermoe
