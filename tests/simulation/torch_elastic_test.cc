// The promise with the real arithmetic when lanes change: the bits are those of the history of who
// trained from which state on, whatever protects them, whoever is lost on the way, and however the
// state came to its lanes: also by a checkpoint that a job with other lanes goes on from.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "simulation/torch_job.h"

namespace evermoe {
namespace {

using Case = TorchCase;

constexpr int64_t kSteps = 12;
// From these states on so many lanes of the two stages train.
struct Stretch {
  int64_t from;
  std::vector<int> lanes;
};

class TorchElasticTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { configure_log("simulation", LogLevel::kError); }

  TorchElasticTest() : config_(config({3, 3}, kSteps)), job_(config_) {
    job_.shape().strategy = GetParam().strategy;
    job_.shape().copies = 2;
    job_.shape().spares = 0;
    if (GetParam().strategy != StrategyKind::kSparse) job_.shape().window = 1;
    if (GetParam().strategy == StrategyKind::kGradients) job_.shape().period = 3;
  }

  // A job that begins with one lane has no room for a second replica of an expert.
  static std::vector<Stretch> stretches() {
    const bool has_replicas =
        std::ranges::count(GetParam().settings, "parallel.expert_replicas=2") > 0;
    return {{0, {3, 3}}, {4, {2, 3}}, {7, {2, has_replicas ? 2 : 1}}, {9, {3, 2}}};
  }
  static JobConfig config(const std::vector<int>& lanes, int64_t steps) {
    std::vector<std::string> settings = {
        "train.micro_batches=6", absl::StrCat("train.schedule_steps=", kSteps),
        absl::StrCat("parallel.lanes=[", absl::StrJoin(lanes, ","), "]"),
        absl::StrCat("evaluate.every_steps=", kSteps)};
    settings.insert(settings.end(), GetParam().settings.begin(), GetParam().settings.end());
    return torch_job_config(GetParam().style, steps, settings);
  }

  MembershipHistory script() const {
    MembershipHistory history;
    const Topology roles = topology_of(config_);
    for (const Stretch& stretch : stretches()) {
      if (stretch.from > 0)
        history.push_back(
            {.step = Step(stretch.from), .resting = last_lanes_resting(roles, stretch.lanes)});
    }
    return history;
  }

  // By the script, in a job of its own.
  TorchOutcome run(const MembershipHistory& script, const std::vector<SimulatedFault>& faults,
                   uint64_t seed) {
    job_.shape().elastic = {};
    job_.shape().elastic.script = script;
    TorchOutcome outcome = job_.run_anew(faults, seed);
    EXPECT_TRUE(outcome.job.ok) << outcome.explain();
    return outcome;
  }

  const JobConfig config_;
  TorchJob job_;
};

// Each stretch is a job of its own that goes on from the last one's checkpoint: nothing moves.
TEST_P(TorchElasticTest, AScriptIsAChainOfJobs) {
  TrainingCluster cluster("chain");
  for (size_t i = 0; i < stretches().size(); ++i) {
    const int64_t end = i + 1 < stretches().size() ? stretches()[i + 1].from : kSteps;
    const ClusterResult result = cluster.run_job(config(stretches()[i].lanes, end));
    ASSERT_TRUE(result.status.ok()) << result.status;
  }
  const std::string expected = stored_digest_of(cluster.directory());
  EXPECT_EQ(run(script(), {}, 1).stored_digest, expected);
  EXPECT_NE(run({}, {}, 2).stored_digest, expected) << "lanes make no difference";
}

TEST_P(TorchElasticTest, NoLossOnTheWayCostsABit) {
  const std::string expected = run(script(), {}, 1).stored_digest;
  const auto survives = [&](const SimulatedFault& fault, uint64_t seed) {
    const TorchOutcome outcome = run(script(), {fault}, seed);
    EXPECT_EQ(outcome.stored_digest, expected) << to_string(fault) << outcome.explain();
    EXPECT_FALSE(outcome.job.recoveries.empty()) << to_string(fault);
    for (const RecoveryRecord& record : outcome.job.recoveries)
      EXPECT_FALSE(record.restarted_all) << to_string(fault) << outcome.explain();
  };
  for (int32_t rank = 0; rank < 6; ++rank) {
    survives(kill(Rank(rank), rank % 2 == 0 ? "lanes/change" : "lanes/changed", 1 + rank % 3),
             static_cast<uint64_t>(rank));
    // In the second, third and fourth stretch.
    survives(kill(Rank(rank), "step/before_verdict", 6 + rank), static_cast<uint64_t>(10 + rank));
  }
}

// Its next process has nothing that says so but the verdict.
TEST_P(TorchElasticTest, ARoleThatRestsIsLostWhenTheJobIsDrained) {
  job_.drain_after(Step(7));
  const std::string expected = run(script(), {}, 1).stored_digest;
  for (const char* const point : {"step/after_verdict", "step/updated"}) {
    const TorchOutcome outcome = run(script(), {kill(Rank(2), point, 8)}, 2);
    EXPECT_EQ(outcome.stored_digest, expected) << point << outcome.explain();
    EXPECT_EQ(outcome.job.recoveries.size(), 1u) << point << outcome.explain();
  }
}

TEST_P(TorchElasticTest, ANodeIsLostAndComesBack) {
  job_.shape().elastic = {};
  job_.shape().elastic.is_enabled = true;
  const SimulatedFault loss{.kind = SimulatedFault::Kind::kKillNode,
                            .node = Node(4),
                            .lasts = absl::Milliseconds(30),
                            .point = "step/backward",
                            .at_rank = Rank(4),
                            .passing = 7};
  const TorchOutcome outcome = job_.run_anew({loss}, 3);
  ASSERT_TRUE(outcome.job.ok) << outcome.explain();
  ASSERT_FALSE(outcome.job.membership.empty()) << outcome.explain();
  EXPECT_EQ(outcome.stored_digest, run(outcome.job.membership, {}, 4).stored_digest)
      << outcome.explain();
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchElasticTest,
    testing::Values(Case{"fp32_gradients", "qwen-moe", {}, StrategyKind::kGradients},
                    Case{"bf16_replicas",
                         "qwen-moe",
                         {"train.precision=bf16", "parallel.expert_replicas=2"},
                         StrategyKind::kSparse},
                    Case{"fp16_skips",
                         "deepseek-moe",
                         {"train.precision=fp16", "train.initial_loss_scale=16777216",
                          "train.loss_scale_growth_steps=1"},
                         StrategyKind::kGradients},
                    Case{"parts_in_peer_memory",
                         "mixtral",
                         {"protection.part_bytes=20000"},
                         StrategyKind::kPeerMemory},
                    Case{"fp8_moments",
                         "qwen-moe",
                         {"train.precision=fp8", "train.master=fp16", "train.moments=fp8+fp16",
                          "parallel.expert_replicas=2"},
                         StrategyKind::kDense}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
