// Collectives, work of operators, steps: against dumb counting, closed forms and published numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>

#include "base/error.h"
#include "config/job_config.h"
#include "planner/cluster_model/collectives.h"
#include "planner/cluster_model/gpu_catalog.h"
#include "planner/cost/operator_work.h"
#include "planner/cost/pipeline_time.h"
#include "planner/cost/step_forecast.h"
#include "planner/report/csv_table.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

const Link kLink{.bytes_per_second = 1e9, .latency_seconds = 1e-5};

// A ring that passes chunks on until every rank has added (or has) all of them, message by message.
double played_ring(int ranks, double bytes, const Link& link, int rounds) {
  double seconds = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<bool>> has(static_cast<size_t>(ranks),
                                       std::vector<bool>(static_cast<size_t>(ranks), false));
    for (int r = 0; r < ranks; ++r) has[static_cast<size_t>(r)][static_cast<size_t>(r)] = true;
    for (int step = 0;; ++step) {
      bool complete = true;
      for (const auto& row : has) complete &= std::accumulate(row.begin(), row.end(), 0) == ranks;
      if (complete) break;
      for (int r = 0; r < ranks; ++r) {  // sends what came in the step before
        const auto to = static_cast<size_t>((r + 1) % ranks),
                   chunk = static_cast<size_t>(((r - step) % ranks + ranks) % ranks);
        EXPECT_TRUE(has[static_cast<size_t>(r)][chunk]);
        has[to][chunk] = true;
      }
      seconds += link.message(bytes / ranks);
    }
  }
  return seconds;
}

TEST(CollectivesTest, RingsTakeWhatTheirMessagesTake) {
  for (const int ranks : {1, 2, 3, 8}) {
    EXPECT_NEAR(ring_gather_seconds(ranks, 1e6, kLink), played_ring(ranks, 1e6, kLink, 1), 1e-12)
        << ranks;
    EXPECT_NEAR(ring_all_reduce_seconds(ranks, 1e6, kLink), played_ring(ranks, 1e6, kLink, 2),
                1e-12)
        << ranks;
  }
}

TEST(CollectivesTest, InsideANodeOnlyTheFabricCounts) {
  const Fabric fabric{{1e11, 1e-6}, {1e9, 1e-5}, 8};
  EXPECT_EQ(all_reduce_seconds(8, 1e8, fabric), ring_all_reduce_seconds(8, 1e8, fabric.inside));
  EXPECT_NEAR(all_to_all_seconds(8, 8e8, fabric), 7 * (1e-6 + 1e8 / 1e11), 1e-12);
  EXPECT_EQ(all_to_all_seconds(1, 1e8, fabric), 0);
}

// Two levels: every GPU carries an eighth across; most of an exchange over 4 nodes crosses.
TEST(CollectivesTest, AcrossNodesTheNicCounts) {
  const Fabric fabric{{1e11, 0}, {1e9, 0}, 8};
  EXPECT_NEAR(gather_seconds(32, 3.2e9, fabric), 7.0 / 8 * 3.2e9 / 1e11 + 3.0 / 4 * 4e8 / 1e9,
              1e-12);
  EXPECT_NEAR(all_to_all_seconds(32, 3.2e9, fabric), 24 * 1e8 / 1e9, 1e-12);
  EXPECT_LT(gather_seconds(32, 3.2e9, fabric), ring_gather_seconds(32, 3.2e9, fabric.across));
}

// The well-known 6 operations per active parameter and token, embeddings and norms aside.
TEST(OperatorWorkTest, AboutSixPerActiveParameter) {
  for (const char* name : {"mixtral-8x7b", "deepseek-moe-16b", "qwen2-57b-a14b"}) {
    ModelShape shape = preset(name).value();
    shape.sequence_length = 1;  // no attention to speak of
    const ParameterCounts counts = count_parameters(shape);
    const double embedding = static_cast<double>(shape.vocabulary * shape.hidden);
    const double per_parameter =
        step_work_per_token(shape) / (static_cast<double>(counts.active) - embedding);
    EXPECT_NEAR(per_parameter, 6, 0.03) << name;
  }
}

TEST(OperatorWorkTest, PartsOfABlock) {
  ModelShape shape;
  shape.hidden = 64;
  shape.heads = shape.kv_heads = 2;
  shape.head_dim = 32;
  shape.shared_hidden = 0;
  shape.sequence_length = 127;
  const auto operators = model_operators(shape);
  const OperatorWork block = operator_work(operators[1], shape);
  const double products = 2.0 * (3 * 64 * 64 + 64 * 64), attention = 4.0 * 64 * 64;
  EXPECT_EQ(block.forward, products + attention);
  EXPECT_EQ(block.input_gradient, products + 2 * attention);
  EXPECT_EQ(block.weight_gradient, products);
  EXPECT_EQ(operator_work(operators[0], shape).total(), 0);
}

TEST(PipelineSecondsTest, EqualStagesTakeRoundsAndStagesLessOne) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int rounds : {1, 4, 16}) {
      const std::vector<int> lanes(static_cast<size_t>(stages), 3);
      const std::vector<double> forward(static_cast<size_t>(stages), 1.0),
          backward(static_cast<size_t>(stages), 2.0);
      const double played = pipeline_seconds(lanes, 3 * rounds, forward, backward);
      // Fewer rounds than stages behind a stage leave no more to fill the pipeline with.
      EXPECT_NEAR(played, 3.0 * (rounds + stages - 1), 1e-9)
          << stages << " stages, " << rounds << " rounds";
    }
  }
}

TEST(PipelineSecondsTest, NeverShorterThanTheBusiestStageOrOneMicroBatch) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, 0);
    const int stages = 1 + random.below(5), micro_batches = 1 + random.below(20);
    std::vector<int> lanes;
    std::vector<double> forward, backward;
    double busiest = 0, path = 0, all = 0;
    for (int s = 0; s < stages; ++s) {
      lanes.push_back(1 + random.below(4));
      forward.push_back(random.uniform());
      backward.push_back(random.uniform());
      const int rounds = (micro_batches + lanes.back() - 1) / lanes.back();
      busiest = std::max(busiest, rounds * (forward.back() + backward.back()));
      path += forward.back() + backward.back();
      all += rounds * (forward.back() + backward.back());
    }
    const double played = pipeline_seconds(lanes, micro_batches, forward, backward);
    EXPECT_GE(played, std::max(busiest, path) - 1e-9) << seed;
    EXPECT_LE(played, all + 1e-9) << seed;
  }
}

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

// The model's own paper: 671B parameters, 37B of them active, without the layer for multi-token
// prediction.
TEST(CostShapeTest, DeepSeekV3HasItsPublishedParameters) {
  const CostShape shape = cost_preset("deepseek-v3").value();
  const ParameterCounts counts = count_parameters(cost_operators(shape), shape);
  EXPECT_NEAR(static_cast<double>(counts.total), 671e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(counts.active), 37.5e9, 0.5e9);
  EXPECT_FALSE(cost_preset("mixtral-8x7b").has_value());
  // Trainable shapes are counted as the trainer counts them.
  const CostShape mixtral = preset("mixtral-8x7b").value();
  const ParameterCounts same = count_parameters(cost_operators(mixtral), mixtral),
                        trained = count_parameters(preset("mixtral-8x7b").value());
  EXPECT_EQ(same.total, trained.total);
  EXPECT_EQ(same.active, trained.active);
  EXPECT_EQ(same.experts, trained.experts);
}

TEST(CostShapeTest, TheTrainerRefusesItInOneLine) {
  const absl::Status refused =
      parse_config("[model]\npreset = \"deepseek-v3\"\n", "job.toml", ".", {}).status();
  EXPECT_EQ(exit_code(refused), 2);
  EXPECT_NE(refused.message().find("model.preset: found \"deepseek-v3\", allowed: "),
            std::string::npos)
      << refused;
  EXPECT_EQ(refused.message().find('\n'), std::string::npos);
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

TEST(GpuCatalogTest, NamesAndUnknownOnes) {
  for (const std::string& name : gpu_names()) {
    const auto gpu = gpu_spec(name);
    ASSERT_TRUE(gpu.ok());
    EXPECT_GT(gpu->flops, 1e14);
    EXPECT_GT(gpu->fabric_bytes_per_second, gpu->host_bytes_per_second);
  }
  EXPECT_EQ(gpu_spec("A100").status().message().substr(0, 30), "no GPU \"A100\", allowed: V100-3");
}

TEST(GpuCatalogTest, GroupedProductsByTheRecordedTable) {
  std::ifstream file(std::string(EVERMOE_SOURCE_DIR) + "/data/planner/grouped-gemm-efficiency.csv");
  std::stringstream text;
  text << file.rdbuf();
  const auto table = CsvTable::parse(text.str(), "grouped-gemm-efficiency.csv");
  ASSERT_TRUE(table.ok());
  for (int i = 0; i < table->rows(); ++i) {
    CsvTable::Row row = table->row(i);
    const double tokens = row.number("tokens_per_expert");
    EXPECT_NEAR(grouped_product_share(tokens), row.number("default") / 0.7, 1e-9) << tokens;
  }
  EXPECT_NEAR(grouped_product_share(std::sqrt(64 * 128)), 0.275 / 0.7, 1e-9);
}

}  // namespace
}  // namespace evermoe
