// The promise with the real arithmetic: whichever role is lost at whichever point, and whatever is lost
// while that is repaired, every master weight, moment and compute weight is in the end bit-equal to the
// run that never failed. Tolerance zero.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/log.h"
#include "simulation/torch_job.h"

namespace evermoe {
namespace {

constexpr int64_t kSteps = 9;

JobConfig config_of(const std::string& style, const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"train.micro_batches=4", "train.micro_batch_size=1", "model.sequence_length=64",
                                       "model.layers=2", "model.experts=4", "model.top_k=2",
                                       absl::StrCat("train.steps=", kSteps), "train.warmup_steps=2",
                                       "train.learning_rate=3e-3", "checkpoint.every_steps=4",
                                       "evaluate.every_steps=3", "evaluate.micro_batches=2",
                                       "parallel.stages=2", "parallel.lanes=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config(style, settings);
}

uint64_t draw(uint64_t seed, const std::string& what, uint64_t bound) {
  const std::string key = absl::StrCat(seed, "/", what);
  return fingerprint(std::as_bytes(std::span(key.data(), key.size()))).low % bound;
}

Disaster kill(Rank rank, const std::string& point, int64_t passing) {
  return {.kind = Disaster::Kind::kKillWorker, .rank = rank, .point = point, .at_rank = rank, .passing = passing};
}

// Somewhere in the life of the role.
Disaster random_kill(uint64_t seed, Rank rank) {
  struct Point {
    const char* name;
    uint64_t passings;  // of an undisturbed run, about
  };
  constexpr Point kPoints[] = {{"step/forward", 2 * kSteps}, {"step/backward", 2 * kSteps}, {"step/accumulated", kSteps},
                               {"step/before_verdict", kSteps}, {"step/after_verdict", kSteps}, {"step/updated", kSteps},
                               {"capture/copied", 100}, {"capture/sent", 100}, {"copy/stored", 100}, {"step/save", 3}};
  const Point& point = kPoints[draw(seed, "point", std::size(kPoints))];
  return kill(rank, point.name, 1 + static_cast<int64_t>(draw(seed, "passing", point.passings)));
}

struct Case {
  std::string name;
  std::string style;
  std::vector<std::string> settings;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class TorchRecoveryTest : public testing::TestWithParam<Case> {
 protected:
  TorchRecoveryTest() : config_(config_of(GetParam().style, GetParam().settings)), job_(config_) {
    configure_log("simulation", LogLevel::kError);
    ordinary_ = job_.ordinary_digest();
    undisturbed_ = job_.run_anew({}, 1);
    EXPECT_TRUE(undisturbed_.job.ok) << undisturbed_.explain();
    EXPECT_EQ(undisturbed_.stored_digest, ordinary_) << "the two trainers differ";
  }

  TorchOutcome expect_exact(const std::vector<Disaster>& disasters, uint64_t seed) {
    const TorchOutcome outcome = job_.run_anew(disasters, seed);
    EXPECT_TRUE(outcome.job.ok) << outcome.explain();
    EXPECT_EQ(outcome.job.digest, undisturbed_.job.digest) << outcome.explain();
    EXPECT_EQ(outcome.stored_digest, ordinary_) << outcome.explain();
    steps_again_ += outcome.steps_again;
    sparse_again_ += outcome.sparse_again;
    skipped_ += outcome.sparse_skipped_again;
    clipped_ += outcome.sparse_clipped_again;
    for (const RecoveryRecord& record : outcome.job.recoveries) restarts_of_all_ += record.restarted_all ? 1 : 0;
    recoveries_ += static_cast<int>(outcome.job.recoveries.size());
    return outcome;
  }

  int32_t world() const { return static_cast<int32_t>(config_.parallel.world_size()); }
  uint64_t seed(const std::string& what, int index) const { return draw(0, absl::StrCat(GetParam().name, what, index), 1 << 30); }

  const JobConfig config_;
  TorchJob job_;
  std::string ordinary_;
  TorchOutcome undisturbed_;
  int64_t steps_again_ = 0, sparse_again_ = 0, skipped_ = 0, clipped_ = 0;
  int recoveries_ = 0, restarts_of_all_ = 0;
};

TEST_P(TorchRecoveryTest, EveryRoleAtRandomPoints) {
  for (int32_t rank = 0; rank < world(); ++rank) {
    const uint64_t seed = this->seed("one", rank);
    expect_exact({random_kill(seed, Rank(rank))}, seed);
  }
  EXPECT_GE(recoveries_, world() - 1) << "kills came too late";
  EXPECT_EQ(restarts_of_all_, 0);
  EXPECT_GT(steps_again_, 0);
  EXPECT_GT(sparse_again_, 0);
}

TEST_P(TorchRecoveryTest, TwoKillsAndKillsInsideARecovery) {
  constexpr const char* kPoints[] = {"recovery/stopped", "recovery/connected", "recovery/restored", "catch_up/step"};
  for (int i = 0; i < 4; ++i) {
    const uint64_t seed = this->seed("two", i);
    const Rank first(static_cast<int32_t>(draw(seed, "first", static_cast<uint64_t>(world()))));
    const Rank second(static_cast<int32_t>(draw(seed, "second", static_cast<uint64_t>(world()))));
    Disaster inside = kill(second, kPoints[i], 1 + static_cast<int64_t>(draw(seed, "at", i == 3 ? 4 : 1)));
    inside.at_rank = Rank(-1);
    expect_exact({kill(first, "step/backward", 8 + static_cast<int64_t>(draw(seed, "passing", 8))), inside}, seed);
    expect_exact({random_kill(seed + 1, first), random_kill(seed + 2, second)}, seed + 1);
  }
  EXPECT_GT(sparse_again_, 0);
}

// The middle of the run, when a window is complete and the next one is not: the longest catch-ups.
TEST_P(TorchRecoveryTest, CatchUpsGoThroughSkippedAndClippedSteps) {
  for (int32_t rank = 0; rank < world(); rank += world() - 1) expect_exact({kill(Rank(rank), "step/before_verdict", 6)}, 7);
  EXPECT_GT(sparse_again_, 0);
  if (config_.train.precision == Precision::kFp16) {
    EXPECT_GT(skipped_, 0);
  }
  if (config_.train.clip_norm < 1) {
    EXPECT_GT(clipped_, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchRecoveryTest,
    testing::Values(Case{"fp32", "qwen-moe", {}},
                    Case{"bf16", "mixtral", {"train.precision=bf16"}},
                    // The loss scale is halved until nothing overflows and doubled after every good step.
                    Case{"fp16", "deepseek-moe", {"train.precision=fp16", "train.initial_loss_scale=16777216", "train.loss_scale_growth_steps=1"}},
                    Case{"fp64_one_stage", "qwen-moe", {"train.precision=fp64", "parallel.stages=1", "parallel.lanes=3", "model.experts=5"}},
                    Case{"clipped", "gpt-moe", {"train.clip_norm=0.05"}},
                    Case{"replicas", "qwen-moe", {"train.precision=bf16", "parallel.expert_replicas=2"}},
                    Case{"unequal_lanes", "mixtral", {"parallel.lanes=[3, 2]", "parallel.expert_replicas=2"}},
                    Case{"three_stages", "deepseek-moe", {"train.precision=bf16", "model.layers=3", "parallel.stages=3", "parallel.lanes=[1, 2, 1]"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
