// Collectives, work of operators, steps: against dumb counting, closed forms and published numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>

#include "base/error.h"
#include "forecast/collectives.h"
#include "forecast/csv_table.h"
#include "forecast/gpu_catalog.h"
#include "forecast/operator_work.h"
#include "forecast/pipeline_time.h"
#include "forecast/random_stream.h"
#include "forecast/step_forecast.h"

namespace evermoe {
namespace {

const Link kLink{.bytes_per_second = 1e9, .latency_seconds = 1e-5};

// A ring that passes chunks on until every rank has added (or has) all of them, message by message.
double played_ring(int ranks, double bytes, const Link& link, int rounds) {
  double seconds = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<bool>> has(static_cast<size_t>(ranks), std::vector<bool>(static_cast<size_t>(ranks), false));
    for (int r = 0; r < ranks; ++r) has[static_cast<size_t>(r)][static_cast<size_t>(r)] = true;
    for (int step = 0;; ++step) {
      bool complete = true;
      for (const auto& row : has) complete &= std::accumulate(row.begin(), row.end(), 0) == ranks;
      if (complete) break;
      for (int r = 0; r < ranks; ++r) {  // sends what came in the step before
        const auto to = static_cast<size_t>((r + 1) % ranks), chunk = static_cast<size_t>(((r - step) % ranks + ranks) % ranks);
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
    EXPECT_NEAR(ring_gather_seconds(ranks, 1e6, kLink), played_ring(ranks, 1e6, kLink, 1), 1e-12) << ranks;
    EXPECT_NEAR(ring_all_reduce_seconds(ranks, 1e6, kLink), played_ring(ranks, 1e6, kLink, 2), 1e-12) << ranks;
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
  EXPECT_NEAR(gather_seconds(32, 3.2e9, fabric), 7.0 / 8 * 3.2e9 / 1e11 + 3.0 / 4 * 4e8 / 1e9, 1e-12);
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
    const double per_parameter = step_work_per_token(shape) / (static_cast<double>(counts.active) - embedding);
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
      const std::vector<double> forward(static_cast<size_t>(stages), 1.0), backward(static_cast<size_t>(stages), 2.0);
      const double played = pipeline_seconds(lanes, 3 * rounds, forward, backward);
      // Fewer rounds than stages behind a stage leave no more to fill the pipeline with.
      EXPECT_NEAR(played, 3.0 * (rounds + stages - 1), 1e-9) << stages << " stages, " << rounds << " rounds";
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

// MoEtion's models on its 12 nodes of 8 A100 (512 sequences of 2048): step times within a factor of 1.4 of
// what its tables imply, although nothing but shapes and data sheets went in.
TEST(StepForecastTest, MoetionsStepTimesFromFirstPrinciples) {
  struct Row { const char* preset; double seconds; };
  for (const Row& row : {Row{"moe-llava-2.9b-language", 1.7}, Row{"gpt-moe-7.3b", 2.1}, Row{"qwen1.5-moe-a2.7b", 2.5},
                         Row{"deepseek-moe-16b", 2.9}}) {
    ModelShape shape = preset(row.preset).value();
    shape.sequence_length = 2048;
    const ClusterSpec cluster = a100_cluster(12);
    const auto layout = choose_layout(shape, cluster, 512, Precision::kBf16);
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
  const auto layout = choose_layout(preset("mixtral-8x7b").value(), a100_cluster(1), 64, Precision::kBf16);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().code(), NoCapacity("").code());
  EXPECT_NE(layout.status().message().find("GB of each GPU"), absl::string_view::npos) << layout.status();
  EXPECT_FALSE(choose_layout(preset("gpt-moe-tiny").value(), a100_cluster(1), 3, Precision::kBf16).ok());
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
  std::ifstream file(std::string(EVERMOE_SOURCE_DIR) + "/data/forecast/grouped-gemm-efficiency.csv");
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
