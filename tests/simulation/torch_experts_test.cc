// The promise with the real arithmetic where experts move by load: they move at the same states and
// to the same lanes whatever is lost on the way and however the job came there, no move changes a
// bit of the state, and tokens are shared out among replicas.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "simulation/torch_job.h"

namespace evermoe {
namespace {

using Case = TorchCase;

constexpr int64_t kSteps = 11;

class TorchExpertsTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { configure_log("simulation", LogLevel::kError); }

  TorchExpertsTest() : config_(config({})), job_(config_) { prepare(job_); }

  // Popularity is drawn anew on the way, so experts move more than once.
  static JobConfig config(const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"parallel.lanes=[3,2]",
                                         "train.micro_batches=6",
                                         "model.experts=6",
                                         "model.routing=synthetic",
                                         "model.routing_skew=0.2",
                                         "model.routing_drift_steps=4",
                                         "experts.replicas=by-load",
                                         "experts.rebalance_every_steps=3",
                                         "experts.rebalance_gain=1.01"};
    settings.insert(settings.end(), GetParam().settings.begin(), GetParam().settings.end());
    settings.insert(settings.end(), more.begin(), more.end());
    return torch_job_config(GetParam().style, kSteps, settings);
  }
  static void prepare(TorchJob& job) {
    job.shape().strategy = GetParam().strategy;
    job.shape().copies = 2;
    job.shape().spares = 0;
    if (GetParam().strategy != StrategyKind::kSparse) job.shape().window = 1;
    if (GetParam().strategy == StrategyKind::kGradients) job.shape().period = 4;
  }
  static TorchOutcome finished(TorchOutcome outcome) {
    EXPECT_TRUE(outcome.job.ok) << outcome.explain();
    EXPECT_THAT(outcome.job.contradictions, testing::IsEmpty()) << outcome.explain();
    return outcome;
  }

  const JobConfig config_;
  TorchJob job_;
};

TEST_P(TorchExpertsTest, NoLossBeforeInAndAfterAMoveCostsABit) {
  const TorchOutcome undisturbed = finished(job_.run_anew({}, 1));
  ASSERT_THAT(undisturbed.job.marks, testing::Contains("experts moved"));
  ASSERT_EQ(undisturbed.stored_digest, job_.unprotected_digest());
  const auto survives = [&](const SimulatedFault& fault, uint64_t seed) {
    const TorchOutcome outcome = finished(job_.run_anew({fault}, seed));
    EXPECT_EQ(outcome.stored_digest, undisturbed.stored_digest)
        << to_string(fault) << outcome.explain();
    EXPECT_EQ(outcome.job.digest, undisturbed.job.digest) << to_string(fault);
    for (const RecoveryRecord& record : outcome.job.recoveries)
      EXPECT_FALSE(record.restarted_all) << to_string(fault) << outcome.explain();
  };
  for (int32_t rank = 0; rank < 5; ++rank) {
    survives(kill(Rank(rank), rank % 2 == 0 ? "experts/move" : "experts/moved", 1 + rank % 2),
             static_cast<uint64_t>(rank));
    survives(kill(Rank(rank), "step/before_verdict", 4 + rank), static_cast<uint64_t>(10 + rank));
  }
}

// The position of the experts is in the checkpoint, or follows from it.
TEST_P(TorchExpertsTest, AJobThatStopsAndGoesOnIsTheSame) {
  const std::string expected = finished(job_.run_anew({}, 1)).stored_digest;
  for (const int64_t stop : {3, 5, 9}) {
    TorchJob parts(config_);
    prepare(parts);
    parts.drain_after(Step(stop - 1));
    const TorchOutcome first = finished(parts.run({}, 2));
    EXPECT_NE(first.stored_digest, expected);
    parts.drain_after(Step(-1));
    EXPECT_EQ(finished(parts.run({}, 3)).stored_digest, expected) << "stopped at " << stop;
  }
}

TEST_P(TorchExpertsTest, AMoveChangesNoBitOfTheState) {
  TorchJob still(config({"experts.rebalance_every_steps=1000"}));
  prepare(still);
  for (TorchJob* const job : {&job_, &still}) job->drain_after(Step(2));
  const TorchOutcome moved = finished(job_.run_anew({}, 1)),
                     stayed = finished(still.run_anew({}, 1));
  ASSERT_THAT(moved.job.marks, testing::Contains("experts moved"));
  ASSERT_THAT(stayed.job.marks, testing::Not(testing::Contains("experts moved")));
  EXPECT_EQ(moved.stored_digest, stayed.stored_digest);
  EXPECT_NE(moved.job.digest, stayed.job.digest) << "who holds what is not the same";
}

// At a state at which experts move, and at others: as a chain of jobs, each of which goes on from
// the last one's checkpoint with other lanes.
TEST_P(TorchExpertsTest, LanesMayChangeBesides) {
  struct Stretch {
    int64_t from;
    std::string lanes;
    RestingRoles resting;
  };
  const std::vector<Stretch> stretches = {
      {0, "[3,2]", {}}, {4, "[2,2]", {Rank(2)}}, {6, "[3,2]", {}}};
  TrainingCluster cluster("chain");
  MembershipHistory script;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const int64_t end = i + 1 < stretches.size() ? stretches[i + 1].from : kSteps;
    const ClusterResult result = cluster.run_job(
        config({"parallel.lanes=" + stretches[i].lanes, absl::StrCat("train.steps=", end),
                absl::StrCat("train.schedule_steps=", kSteps)}));
    ASSERT_TRUE(result.status.ok()) << result.status;
    if (i > 0) script.push_back({.step = Step(stretches[i].from), .resting = stretches[i].resting});
  }
  job_.shape().elastic.script = script;
  const std::string expected = stored_digest_of(cluster.directory());
  EXPECT_EQ(finished(job_.run_anew({}, 1)).stored_digest, expected);
  for (int32_t rank = 0; rank < 5; ++rank) {
    const SimulatedFault fault =
        kill(Rank(rank), rank % 2 == 0 ? "experts/moved" : "lanes/changed", 1);
    EXPECT_EQ(finished(job_.run_anew({fault}, static_cast<uint64_t>(rank))).stored_digest, expected)
        << to_string(fault);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchExpertsTest,
    testing::Values(Case{"fp32_gradients", "qwen-moe", {}, StrategyKind::kGradients},
                    Case{"bf16_windows",
                         "deepseek-moe",
                         {"train.precision=bf16", "experts.slots=4"},
                         StrategyKind::kSparse},
                    Case{"fp16_skips_in_peer_memory",
                         "mixtral",
                         {"train.precision=fp16", "train.initial_loss_scale=16777216",
                          "train.loss_scale_growth_steps=1", "protection.part_bytes=20000"},
                         StrategyKind::kPeerMemory}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
