// What the trainer says that its gates chose: complete, the same on all lanes, and the same in a
// catch-up, where operators are frozen.

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "base/error.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

JobConfig loads_job(const std::string& style, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"train.micro_batches=5",    "train.micro_batch_size=2",
                                       "model.sequence_length=16", "model.layers=4",
                                       "parallel.stages=2",        "parallel.lanes=[2, 3]"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config(style, settings);
}

int64_t tokens_of_step(const JobConfig& config) {
  return config.train.micro_batches * config.train.micro_batch_size * config.model.sequence_length;
}

bool is_equal(const ExpertLoads& a, const ExpertLoads& b) {
  return a.tokens == b.tokens && a.probability == b.probability;
}

// MoE layers of a stage.
int gates_of(const std::vector<StageOperator>& operators) {
  return static_cast<int>(
      std::count_if(operators.begin(), operators.end(),
                    [](const StageOperator& op) { return op.name.ends_with(".gate"); }));
}

void expect_complete(const ExpertLoads& loads, int gates, const JobConfig& config) {
  const auto experts = static_cast<size_t>(config.model.experts);
  ASSERT_EQ(loads.tokens.size(), static_cast<size_t>(gates) * experts);
  ASSERT_EQ(loads.probability.size(), loads.tokens.size());
  const auto tokens = static_cast<double>(tokens_of_step(config));
  for (size_t begin = 0; begin < loads.tokens.size(); begin += experts) {
    const auto sum = [&](const auto& values, auto zero) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
      return std::accumulate(first, first + static_cast<std::ptrdiff_t>(experts), zero);
    };
    EXPECT_EQ(sum(loads.tokens, int64_t{0}), tokens_of_step(config) * config.model.top_k);
    EXPECT_NEAR(sum(loads.probability, 0.0), tokens, tokens * 1e-6);
  }
}

class ExpertLoadsTest : public testing::TestWithParam<std::string> {};

TEST_P(ExpertLoadsTest, EveryTokenIsCountedInEveryLayerAndLanesAgree) {
  const JobConfig config = loads_job(GetParam());
  TrainingCluster cluster("loads");
  std::mutex mutex;
  std::vector<ExpertLoads> of_rank(5);
  ASSERT_TRUE(cluster
                  .run(config,
                       [&](TrainingRank& self) -> absl::Status {
                         EXPECT_TRUE(self.trainer().expert_loads().tokens.empty());
                         RETURN_IF_ERROR(self.step(self.all_active()));
                         const ExpertLoads first = self.trainer().expert_loads();
                         RETURN_IF_ERROR(self.step(self.all_active()));
                         const std::lock_guard lock(mutex);
                         EXPECT_FALSE(is_equal(self.trainer().expert_loads(), first))
                             << "of another step";
                         expect_complete(first, gates_of(self.trainer().operators()), config);
                         expect_complete(self.trainer().expert_loads(),
                                         gates_of(self.trainer().operators()), config);
                         of_rank[static_cast<size_t>(self.rank().value)] = first;
                         return absl::OkStatus();
                       })
                  .status.ok());
  EXPECT_TRUE(is_equal(of_rank[0], of_rank[1]));
  EXPECT_TRUE(is_equal(of_rank[2], of_rank[3]));
  EXPECT_TRUE(is_equal(of_rank[2], of_rank[4]));
  EXPECT_FALSE(is_equal(of_rank[0], of_rank[2])) << "of other layers";
}

// A catch-up may freeze any operators.
TEST_P(ExpertLoadsTest, FrozenOperatorsChangeNothing) {
  const JobConfig config = loads_job(GetParam(), {"train.precision=bf16"});
  TrainingCluster cluster("frozen-loads");
  ASSERT_TRUE(cluster
                  .run(config,
                       [&](TrainingRank& self) -> absl::Status {
                         RETURN_IF_ERROR(self.step(self.all_active()));
                         RETURN_IF_ERROR(self.train(self.all_active()).status());
                         const ExpertLoads expected = self.trainer().expert_loads();
                         for (size_t share = 1; share <= 3; ++share) {
                           ActiveOperators active = self.all_active();
                           for (size_t i = 0; i < active.size(); ++i) active[i] = i % 3 >= share;
                           RETURN_IF_ERROR(self.train(active).status());
                           EXPECT_TRUE(is_equal(self.trainer().expert_loads(), expected))
                               << share << " of 3 operators frozen";
                         }
                         return absl::OkStatus();
                       })
                  .status.ok());
}

INSTANTIATE_TEST_SUITE_P(All, ExpertLoadsTest,
                         testing::Values("gpt-moe", "qwen-moe", "deepseek-moe", "mixtral"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Lanes divide the micro-batches in another way, but choose the same.
TEST(ExpertLoadsTest, TokensDoNotDependOnTheLanes) {
  std::vector<std::vector<int64_t>> tokens;
  for (const char* lanes : {"parallel.lanes=1", "parallel.lanes=2", "parallel.lanes=[4, 4]"}) {
    const JobConfig config =
        loads_job("qwen-moe", {"train.micro_batches=3", "train.precision=fp64", lanes});
    TrainingCluster cluster("lanes");
    ASSERT_TRUE(cluster
                    .run(config,
                         [&](TrainingRank& self) -> absl::Status {
                           RETURN_IF_ERROR(self.train(self.all_active()).status());
                           if (self.rank() == Rank(0))
                             tokens.push_back(self.trainer().expert_loads().tokens);
                           return absl::OkStatus();
                         })
                    .status.ok());
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(tokens[0], tokens[2]);  // one lane without a micro-batch
}

TEST(ExpertLoadsTest, SkippedStepsCount) {
  const JobConfig config =
      loads_job("qwen-moe", {"train.precision=fp16", "train.initial_loss_scale=16777216"});
  TrainingCluster cluster("skipped");
  ASSERT_TRUE(cluster
                  .run(config,
                       [&](TrainingRank& self) -> absl::Status {
                         RETURN_IF_ERROR(self.step(self.all_active()));
                         EXPECT_FALSE(self.trainer().last_record().applied) << "nothing overflowed";
                         expect_complete(self.trainer().expert_loads(),
                                         gates_of(self.trainer().operators()), config);
                         return absl::OkStatus();
                       })
                  .status.ok());
}

TEST(ExpertLoadsTest, ExpertsHaveTheirPlacesInTheOrderOfLayers) {
  const JobConfig config = loads_job("deepseek-moe");  // its first layer is dense
  TrainingCluster cluster("places");
  ASSERT_TRUE(cluster
                  .run(config,
                       [&](TrainingRank& self) -> absl::Status {
                         int next = 0;
                         for (const StageOperator& op : self.trainer().operators()) {
                           const bool is_expert = op.name.find(".expert.") != std::string::npos;
                           EXPECT_EQ(op.expert, is_expert ? next++ : -1) << op.name;
                         }
                         EXPECT_EQ(next,
                                   gates_of(self.trainer().operators()) * config.model.experts);
                         return absl::OkStatus();
                       })
                  .status.ok());
}

}  // namespace
}  // namespace evermoe
