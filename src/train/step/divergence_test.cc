// A run whose numbers are not finite is given up, says where it began, and publishes nothing of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TrainingPosition position_of(double loss_scale) {
  TrainingPosition position;
  position.loss_scale = loss_scale;
  return position;
}

// A run of steps with these sums of squares.
class Steps {
 public:
  explicit Steps(TrainConfig train, double loss_scale = 1)
      : train_(std::move(train)), position_(position_of(loss_scale)) {}
  std::optional<Divergence> take(double gradient_square_sum) {
    StepFindings findings;
    findings.gradient_square_sum = gradient_square_sum;
    const StepRecord record = decide(findings, train_, position_);
    position_ = advance(position_, record, train_);
    skipped_ = skipped_in_row(skipped_, record, train_);
    return find_divergence(record, skipped_, train_);
  }
  const TrainingPosition& position() const { return position_; }
  int64_t skipped() const { return skipped_; }

 private:
  const TrainConfig train_;
  TrainingPosition position_;
  int64_t skipped_ = 0;
};

TEST(VerdictTest, ALossScaleNeverFallsByGrowth) {
  TrainConfig train;
  train.precision = Precision::kFp16;
  train.loss_scale_growth_steps = 1;
  double scale = 2147483648;  // the largest that the configuration allows
  for (int exponent = 31; exponent >= 0; --exponent, scale /= 2) {
    Steps steps(train, scale);
    steps.take(1);
    EXPECT_EQ(steps.position().loss_scale, scale < kLossScaleMax ? 2 * scale : scale);
    EXPECT_EQ(steps.position().loss_scale_good_steps, 0);
  }
}

// Of two ranks.
Step agreed_locally(int64_t one, int64_t other) {
  Findings combined = to_findings({.prepared_locally = Step(one)});
  const Findings second = to_findings({.prepared_locally = Step(other)});
  for (size_t i = 0; i < combined.minima.size(); ++i)
    combined.minima[i] = std::min(combined.minima[i], second.minima[i]);
  return from_findings(combined, 0).prepared_locally;
}

TEST(VerdictTest, ASaveOnOwnDisksCountsWhereItIsTheNewestOnAll) {
  EXPECT_EQ(agreed_locally(5, 5), Step(5));
  EXPECT_EQ(agreed_locally(5, 6), Step(-1)) << "who has 6 may have failed to save 5";
  EXPECT_EQ(agreed_locally(6, -1), Step(-1));
  EXPECT_EQ(agreed_locally(-1, -1), Step(-1));
}

TEST(VerdictTest, AStepWithALossThatIsNotFiniteIsSkipped) {
  StepFindings findings;
  findings.gradient_square_sum = 1;
  findings.loss_sum = kNaN;
  EXPECT_FALSE(decide(findings, {}, {}).applied);
}

TEST(DivergenceTest, SkippedStepsAreCountedInARow) {
  TrainConfig train;
  train.skipped_steps_max = 3;
  Steps steps(train);
  for (const double gradient : {kNaN, kNaN, 1.0, kNaN, kNaN}) EXPECT_FALSE(steps.take(gradient));
  const auto divergence = steps.take(kNaN);
  ASSERT_TRUE(divergence);
  EXPECT_EQ(divergence->first_step, Step(4));
  EXPECT_EQ(divergence->step, Step(6));
}

TEST(DivergenceTest, StepsThatLowerTheLossScaleAreNotCounted) {
  TrainConfig train;
  train.precision = Precision::kFp16;
  Steps steps(train, 4);
  std::vector<int64_t> counts;
  for (int step = 0; step < 4; ++step) {
    steps.take(kNaN);
    counts.push_back(steps.skipped());
  }
  EXPECT_EQ(steps.position().loss_scale, kLossScaleMin);
  EXPECT_EQ(counts, (std::vector<int64_t>{0, 0, 1, 2}));
}

TEST(DivergenceTest, KeysAreInTheOrderOfAStepAndCanBeReadBack) {
  using enum NonFinitePhase;
  const std::vector<NonFinite> in_order = {{kState, -1, 0},
                                           {kState, -1, 9},
                                           {kValidation, -1, 9},
                                           {kForward, 0, 3},
                                           {kForward, 0, 4},
                                           {kBackward, 0, 4},
                                           {kBackward, 0, 3},
                                           {kForward, 1, 0},
                                           {kBackward, 65535, 70000},
                                           {kWeightGradient, -1, 0},
                                           {kWeightGradient, -1, 70000}};
  for (size_t i = 0; i < in_order.size(); ++i) {
    EXPECT_EQ(from_key(to_key(in_order[i])), in_order[i]);
    EXPECT_LT(to_key(in_order[i]), kAllFinite);
    if (i == 0) continue;
    EXPECT_LT(to_key(in_order[i - 1]), to_key(in_order[i])) << i;
  }
  EXPECT_EQ(from_key(kAllFinite), std::nullopt);
}

// ---- real trainers

JobConfig small_config(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"train.micro_batches=3", "train.micro_batch_size=1",
                                       "parallel.stages=2", "parallel.lanes=2",
                                       "train.skipped_steps_max=3"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config("deepseek-moe", settings);
}

OperatorState* find(Trainer& trainer, const std::string& name) {
  for (OperatorState* const state : trainer.operator_states()) {
    if (state->spec().name == name) return state;
  }
  return nullptr;
}

// Two good steps, then the compute weights of this operator are poisoned everywhere; what ends the
// run.
absl::Status run_poisoned(const std::string& name, const std::vector<std::string>& settings,
                          int& steps) {
  TrainingCluster cluster("divergence");
  return cluster
      .run(small_config(settings),
           [&](TrainingRank& self) -> absl::Status {
             RETURN_IF_ERROR(self.steps(2));
             if (OperatorState* const state = find(self.trainer(), name))
               at::Tensor(state->compute()).fill_(kNaN);
             for (int step = 0; step < 10; ++step) {
               const absl::Status status = self.steps(1);
               if (self.rank() == Rank(0)) steps = step + 1;
               if (!status.ok()) return status;
             }
             return absl::OkStatus();
           })
      .status;
}

TEST(DivergenceTest, ARowOfSkippedStepsEndsTheRunAndNamesTheFirstOperator) {
  const std::map<std::string, std::string> first_of = {
      {"embedding", "first in embedding, forward, micro-batch 0 of step 5"},
      {"layer.1.block", "first in layer.1.block, forward, micro-batch 0 of step 5"},
      {"layer.2.gate", "first in layer.2.gate, forward, micro-batch 0 of step 5"},
      {"layer.3.expert.5", "first in layer.3.expert.5, forward, micro-batch "},
      {"head", "first in head, forward, micro-batch 0 of step 5"}};
  for (const auto& [name, words] : first_of) {
    int steps = 0;
    const absl::Status status = run_poisoned(name, {}, steps);
    EXPECT_TRUE(is_hopeless(status)) << name << ": " << status;
    EXPECT_EQ(steps, 3) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("3 skipped steps in a row, 3 to 5"))
        << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words)) << name;
  }
}

TEST(DivergenceTest, AnUnsoundStateIsNotSavedAndEndsTheRun) {
  TrainingCluster cluster("unsound");
  const absl::Status status =
      cluster
          .run(small_config({"train.skipped_steps_max=1000"}),
               [](TrainingRank& self) -> absl::Status {
                 Trainer& trainer = self.trainer();
                 RETURN_IF_ERROR(self.steps(1));
                 // One weight, of one rank's shard, that no token may meet for a long time.
                 if (OperatorState* const state = find(trainer, "layer.2.expert.7");
                     state != nullptr && state->shard().size() > 0) {
                   state->master()[0].fill_(kNaN);
                 }
                 RETURN_IF_ERROR(trainer.save());
                 RETURN_IF_ERROR(self.steps(1));
                 return absl::OkStatus();
               })
          .status;
  EXPECT_TRUE(is_hopeless(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the state at step 1 is not finite: layer.2.expert.7, state; there is no "
                        "good checkpoint yet"));
}

}  // namespace
}  // namespace evermoe
