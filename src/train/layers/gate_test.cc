// Routing that is drawn: the gate gives the weights, the draw the experts, and the bits do not
// depend on what runs where or when.

#include "train/layers/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "base/error.h"
#include "experts/load/synthetic_routing.h"
#include "tensor/host_bytes.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

// What PyTorch's own gradients of topk and gather are, which a GPU computes by sorting.
TEST(Gate, GradientsOfWhatIsChosenAreThoseOfPyTorch) {
  for (const bool normalises : {false, true}) {
    for (const ScoringKind scoring :
         {ScoringKind::kSoftmaxThenTopK, ScoringKind::kTopKThenSoftmax}) {
      ModelShape shape = tiny_config("qwen-moe", {}).model;
      shape.normalise_top_k = normalises;
      shape.scoring = scoring;
      shape.balance_loss = shape.z_loss = 0;
      const at::Tensor x = at::randn({9, shape.hidden}).requires_grad_(true);
      Parameter gate{at::randn({shape.experts, shape.hidden}), at::zeros({0})};
      gate.is_frozen = true;
      const at::Tensor gradient = at::randn({9, shape.top_k});
      choose_experts(x, gate, shape, 1, {}).weights.backward(gradient);
      const at::Tensor again = x.detach().clone().requires_grad_(true);
      const at::Tensor logits = at::linear(again, gate.value);
      const bool first = scoring == ScoringKind::kTopKThenSoftmax;
      const auto largest =
          std::get<0>(at::topk(first ? logits : at::softmax(logits, -1), shape.top_k, -1));
      at::Tensor weights = first ? at::softmax(largest, -1) : largest;
      if (!first && normalises) weights = weights / weights.sum(-1, true);
      (weights * shape.routed_scale).backward(gradient);
      EXPECT_TRUE(at::equal(x.grad(), again.grad()));
    }
  }
}

JobConfig drawn(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {
      "train.micro_batches=5",    "train.micro_batch_size=1", "train.steps=4",
      "model.sequence_length=16", "checkpoint.every_steps=2", "evaluate.every_steps=2",
      "evaluate.micro_batches=3", "parallel.stages=2",        "parallel.lanes=2",
      "model.routing=synthetic",  "model.routing_skew=0.5",   "model.routing_drift_steps=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config("qwen-moe", settings);
}

std::vector<int64_t> experts_of(const GateChoice& choice) {
  const std::span<const int64_t> experts = host_values<int64_t>(choice.experts);
  return {experts.begin(), experts.end()};
}

TEST(SyntheticGate, WeighsTheExpertsThatWereDrawn) {
  for (const std::string scoring : {"softmax-then-top-k", "top-k-then-softmax"}) {
    const ModelShape shape = drawn({"model.scoring=" + scoring}).model;
    const at::Tensor x = at::randn({7, shape.hidden});
    Parameter gate;
    gate.value = at::randn({shape.experts, shape.hidden});
    gate.gradient = at::zeros_like(gate.value);
    gate.is_frozen = true;
    const TokenPlace place{3, Step(5), MicroBatch(1)};
    const GateChoice choice = choose_experts(x, gate, shape, /*layer=*/1, place);
    const SyntheticRouting routing{.seed = 3,
                                   .experts = static_cast<int>(shape.experts),
                                   .top_k = static_cast<int>(shape.top_k),
                                   .skew = 0.5,
                                   .drift_steps = 2};
    const auto popularity = synthetic_popularity(routing, 1, Step(5));
    EXPECT_EQ(experts_of(choice),
              synthetic_choices(routing, 1, Step(5), MicroBatch(1), 7, popularity));
    const at::Tensor logits = at::mm(x, gate.value.t());
    for (int64_t token = 0; token < 7; ++token) {
      double sum = 0;
      for (int64_t k = 0; k < shape.top_k; ++k) {
        const int64_t expert = choice.experts[token][k].item<int64_t>();
        const double weight = choice.weights[token][k].item<double>();
        sum += weight;
        if (scoring != "softmax-then-top-k" || shape.normalise_top_k) continue;
        const double expected = at::softmax(logits, -1)[token][expert].item<double>();
        EXPECT_NEAR(weight, expected * shape.routed_scale, 1e-5);
      }
      if (scoring == "top-k-then-softmax") {
        EXPECT_NEAR(sum, shape.routed_scale, 1e-5);
      }
    }
    EXPECT_TRUE(at::equal(choice.load, at::bincount(choice.experts.flatten(), {}, shape.experts)));
    EXPECT_NEAR(choice.probability.sum().item<double>(), 7, 1e-9);
  }
}

// Of their probabilities nothing is left in FP32.
TEST(SyntheticGate, WeighsExpertsThatTheGateIsFarFromChoosing) {
  constexpr int64_t kTokens = 7;
  for (const std::string scoring : {"softmax-then-top-k", "top-k-then-softmax"}) {
    ModelShape shape = drawn({"model.scoring=" + scoring}).model;
    shape.normalise_top_k = true;
    const TokenPlace place{3, Step(5), MicroBatch(1)};
    Parameter gate;
    gate.is_frozen = true;
    gate.gradient = at::zeros({shape.experts, shape.hidden});
    // Each token has a hidden element of its own, so column t has the logits of token t.
    const at::Tensor x = at::eye(kTokens, shape.hidden);
    gate.value = at::full({shape.experts, shape.hidden}, 120.0, at::kFloat);
    const GateChoice before = choose_experts(x, gate, shape, /*layer=*/1, place);
    at::Tensor chosen = at::empty({kTokens, shape.top_k});
    for (int64_t token = 0; token < kTokens; ++token) {
      for (int64_t k = 0; k < shape.top_k; ++k) {
        const int64_t expert = before.experts[token][k].item<int64_t>();
        gate.value[expert][token] = -static_cast<double>(k);
        chosen[token][k] = -static_cast<double>(k);
      }
    }
    const GateChoice choice = choose_experts(x, gate, shape, /*layer=*/1, place);
    ASSERT_TRUE(at::equal(choice.experts, before.experts));
    const at::Tensor expected = at::softmax(chosen, -1) * shape.routed_scale;
    EXPECT_TRUE(at::allclose(choice.weights, expected)) << scoring << choice.weights;
  }
}

TEST(SyntheticGate, SameBitsUnderEveryDeliveryOrder) {
  const auto run = [](const JobConfig& config, uint64_t seed) {
    return TrainingCluster("drawn").run_job(config, {.seed = seed});
  };
  const ClusterResult first = run(drawn(), 1);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(run(drawn(), 2).digest, first.digest);
  EXPECT_NE(run(drawn({"model.routing_skew=0.6"}), 1).digest, first.digest);
  EXPECT_NE(run(drawn({"model.routing_drift_steps=1"}), 1).digest, first.digest);
}

TEST(SyntheticGate, AResumedRunDrawsWhatTheUndisturbedOneDraws) {
  const JobConfig config = drawn();
  const ClusterResult expected = TrainingCluster("undisturbed").run_job(config);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  TrainingCluster cluster("resumed");
  const ClusterResult broken = cluster.run(config, [&](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(2));
    RETURN_IF_ERROR(rank.trainer().save());
    return rank.steps(1);
  });
  ASSERT_TRUE(broken.status.ok()) << broken.status;
  const ClusterResult resumed = cluster.run_job(config);
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.resumed_from, Step(2));
  EXPECT_EQ(resumed.digest, expected.digest);
}

TEST(SyntheticGate, TheVerdictSaysHowSkewedEachLayerWas) {
  std::vector<double> skew;
  TrainingCluster cluster("skew");
  const ClusterResult result = cluster.run(drawn(), [&](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.steps(1));
    if (rank.rank() == Rank(3)) skew = rank.trainer().last_record().routing_skew;
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(skew.size(), static_cast<size_t>(drawn().model.layers)) << "of all stages";
  EXPECT_THAT(skew, testing::Each(testing::AllOf(testing::Gt(0), testing::Lt(1))));
}

}  // namespace
}  // namespace evermoe
