// The promise with the real arithmetic: whichever role is lost at whichever point, and whatever is
// lost while that is repaired, every master weight, moment and compute weight is in the end
// bit-equal to the run that never failed. Tolerance zero.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "simulation/torch_job.h"
#include "train/state/operator_parts.h"

namespace evermoe {
namespace {

struct Case {
  std::string name;
  std::string style;
  std::vector<std::string> settings;
  int64_t steps = 8;
  int window = 3;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class TorchRecoveryTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { configure_log("simulation", LogLevel::kError); }

  TorchRecoveryTest()
      : config_(torch_job_config(GetParam().style, GetParam().steps, GetParam().settings)),
        digest_without_parts_(digest_without_parts(config_)),
        job_(config_) {
    job_.shape().window = GetParam().window;
    job_.shape().ordering.reorder = {0, 0};  // every window has an order of its own
  }

  bool has_parts() const { return config_.protection.part_bytes > 0; }

  // Gates are too small.
  void expect_operators_are_cut() const {
    const std::vector<OperatorSpec> operators = model_operators(config_.model);
    const int64_t block_bytes = train_types(config_.train).full_bytes(kFlatAlignment);
    std::set<OperatorKind> kinds;
    for (const OperatorPart& part :
         cut_operators(operators, block_bytes, config_.protection.part_bytes)) {
      const OperatorSpec& spec = operators[part.operator_index];
      if (part.range.size() < spec.flat_size) kinds.insert(spec.kind);
    }
    for (const OperatorKind kind : {OperatorKind::kEmbedding, OperatorKind::kBlock,
                                    OperatorKind::kExpert, OperatorKind::kHead}) {
      EXPECT_TRUE(kinds.contains(kind)) << to_string(kind);
    }
  }

  // Of a run that is not disturbed, if the case has parts.
  static std::string digest_without_parts(JobConfig config) {
    if (std::exchange(config.protection.part_bytes, 0) == 0) return "";
    return TorchJob(config).run_anew({}, 1).job.digest;
  }

  void expect_exact(const std::vector<SimulatedFault>& faults, uint64_t seed) {
    const TorchOutcome outcome = job_.run_anew(faults, seed);
    ASSERT_TRUE(outcome.job.ok) << outcome.explain();
    EXPECT_EQ(outcome.job.digest, undisturbed_.job.digest) << outcome.explain();
    EXPECT_EQ(outcome.stored_digest, unprotected_) << outcome.explain();
    sparse_again_ += outcome.sparse_again;
    skipped_ += outcome.sparse_skipped_again;
    clipped_ += outcome.sparse_clipped_again;
    mixed_ += outcome.mixed_again;
    counted_orders_ += outcome.job.marks.contains("restored in an order that was counted") ? 1 : 0;
    for (const RecoveryRecord& record : outcome.job.recoveries)
      restarts_of_all_ += record.restarted_all ? 1 : 0;
    recoveries_ += static_cast<int>(outcome.job.recoveries.size());
  }

  // At a point that the role passes in the undisturbed run, early enough that it is needed again.
  SimulatedFault random_kill(uint64_t seed, Rank rank) const {
    constexpr const char* kPoints[] = {
        "step/forward", "step/backward",  "step/accumulated", "step/before_verdict",
        "step/updated", "capture/copied", "capture/sent",     "step/after_verdict",
        "copy/stored",  "step/save"};
    std::vector<std::pair<std::string, int64_t>> passed;
    for (const char* const point : kPoints) {
      const auto found = undisturbed_.job.passings.find({point, rank.value});
      if (found != undisturbed_.job.passings.end()) passed.emplace_back(point, found->second);
    }
    const auto& [point, passings] = passed.at(draw(seed, "point", passed.size()));
    const auto early = static_cast<uint64_t>(std::max(passings * 3 / 4, int64_t{1}));
    return kill(rank, point, 1 + static_cast<int64_t>(draw(seed, "passing", early)));
  }

  void every_role_at_random_points() {
    for (int32_t rank = 0; rank < world(); ++rank) {
      const uint64_t seed = this->seed("one", rank);
      expect_exact({random_kill(seed, Rank(rank))}, seed);
    }
    EXPECT_GE(recoveries_, world()) << "kills came too late";
    EXPECT_EQ(restarts_of_all_, 0);
  }

  // When a window is complete and the next one is not.
  void the_longest_catch_ups() {
    expect_exact({kill(Rank(0), "step/before_verdict", 2 * GetParam().window)}, 7);
    expect_exact({kill(Rank(world() - 1), "step/before_verdict", 2 * GetParam().window)}, 8);
  }

  // When the second window is complete, the first whose order the gates' counts have decided.
  void the_last_window() {
    expect_exact({kill(Rank(0), "step/before_verdict", GetParam().steps)}, 9);
    expect_exact({kill(Rank(world() - 1), "step/before_verdict", GetParam().steps)}, 10);
  }

  void kills_inside_a_recovery() {
    constexpr const char* kPoints[] = {"recovery/stopped", "recovery/opening", "recovery/restored",
                                       "catch_up/step"};
    const auto point = draw(this->seed("inside", 0), "point", 3);
    for (const size_t i : {size_t{3}, static_cast<size_t>(point)}) {
      const uint64_t seed = this->seed("inside", static_cast<int>(i));
      SimulatedFault inside = kill(any_rank(seed, "second"), kPoints[i],
                                   1 + static_cast<int64_t>(draw(seed, "at", i == 3 ? 4 : 1)));
      inside.at_rank = Rank(-1);
      const int64_t steps = GetParam().steps;  // passed twice each: in the second half of the run
      const auto passing =
          steps + static_cast<int64_t>(draw(seed, "passing", static_cast<uint64_t>(steps)));
      expect_exact({kill(any_rank(seed, "first"), "step/backward", passing), inside}, seed);
    }
  }

  void two_kills() {
    const uint64_t seed = this->seed("two", 0);
    expect_exact({random_kill(seed + 1, any_rank(seed, "first")),
                  random_kill(seed + 2, any_rank(seed, "second"))},
                 seed);
  }

  Rank any_rank(uint64_t seed, const std::string& what) const {
    return Rank(static_cast<int32_t>(draw(seed, what, static_cast<uint64_t>(world()))));
  }
  int32_t world() const { return static_cast<int32_t>(config_.parallel.world_size()); }
  uint64_t seed(const std::string& what, int index) const {
    return draw(0, absl::StrCat(GetParam().name, what, index), 1 << 30);
  }

  const JobConfig config_;
  const std::string digest_without_parts_;  // before the job, whose folder it uses
  TorchJob job_;
  std::string unprotected_;
  TorchOutcome undisturbed_;
  int64_t sparse_again_ = 0, skipped_ = 0, clipped_ = 0, mixed_ = 0;
  int recoveries_ = 0, restarts_of_all_ = 0, counted_orders_ = 0;
};

TEST_P(TorchRecoveryTest, EveryLossCostsNoBit) {
  unprotected_ = job_.unprotected_digest();
  undisturbed_ = job_.run_anew({}, 1);
  ASSERT_TRUE(undisturbed_.job.ok) << undisturbed_.explain();
  ASSERT_EQ(undisturbed_.stored_digest, unprotected_) << "protection changes the training";
  if (has_parts()) {
    expect_operators_are_cut();
    ASSERT_EQ(undisturbed_.job.digest, digest_without_parts_) << "parts change the training";
  }
  every_role_at_random_points();
  the_longest_catch_ups();
  the_last_window();
  kills_inside_a_recovery();
  two_kills();
  EXPECT_GT(sparse_again_, 0);
  EXPECT_GT(counted_orders_, 0) << "no window was restored whose order the gates had decided";
  EXPECT_EQ(mixed_ > 0, has_parts())
      << "steps in a catch-up with operators of which some parts were frozen";
  if (config_.train.precision == Precision::kFp16) {
    EXPECT_GT(skipped_, 0) << "no skipped step in a catch-up";
  }
  if (config_.train.clip_norm < 1) {
    EXPECT_GT(clipped_, 0) << "no clipped step in a catch-up";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchRecoveryTest,
    testing::Values(
        Case{"fp32", "qwen-moe", {}}, Case{"bf16", "mixtral", {"train.precision=bf16"}},
        // The loss scale is halved until nothing overflows and doubled after every good step.
        Case{"fp16",
             "deepseek-moe",
             {"train.precision=fp16", "train.initial_loss_scale=16777216",
              "train.loss_scale_growth_steps=1"}},
        Case{"fp64_one_stage",
             "qwen-moe",
             {"train.precision=fp64", "parallel.stages=1", "parallel.lanes=3", "model.experts=5"}},
        Case{"clipped", "gpt-moe", {"train.clip_norm=0.05"}},
        Case{"replicas", "qwen-moe", {"train.precision=bf16", "parallel.expert_replicas=2"}},
        Case{"unequal_lanes", "mixtral", {"parallel.lanes=[3, 2]", "parallel.expert_replicas=2"}},
        // Embedding, head, blocks and experts are cut; there are more slots than operators.
        Case{"parts_fp32", "qwen-moe", {"protection.part_bytes=20000"}, 22, 9},
        Case{"parts_bf16",
             "mixtral",
             {"train.precision=bf16", "protection.part_bytes=20000", "parallel.lanes=[3, 2]",
              "parallel.expert_replicas=2"},
             22,
             9},
        Case{"parts_fp16",
             "deepseek-moe",
             {"train.precision=fp16", "train.initial_loss_scale=16777216",
              "train.loss_scale_growth_steps=1", "protection.part_bytes=20000"},
             11},
        Case{"parts_fp64",
             "gpt-moe",
             {"train.precision=fp64", "protection.part_bytes=9999", "train.clip_norm=0.05"}},
        // The rows of MoEtion's Table 7.
        Case{"fp16_state",
             "mixtral",
             {"train.precision=fp16", "train.master=fp16", "train.moments=fp16",
              "train.initial_loss_scale=16777216", "train.loss_scale_growth_steps=1"}},
        Case{"fp8", "qwen-moe", {"train.precision=fp8"}},
        Case{"fp8_master_fp16",
             "deepseek-moe",
             {"train.precision=fp8", "train.master=fp16", "parallel.expert_replicas=2"}},
        Case{"fp8_moments",
             "qwen-moe",
             {"train.precision=fp8", "train.master=fp16", "train.moments=fp8+fp16",
              "parallel.lanes=[3, 2]", "parallel.expert_replicas=2"}},
        Case{"fp8_master_in_parts",
             "mixtral",
             {"train.precision=fp8", "train.master=fp8", "train.moments=fp8+fp16",
              "protection.part_bytes=5000"},
             22,
             9},
        Case{"three_stages",
             "deepseek-moe",
             {"train.precision=bf16", "model.layers=3", "parallel.stages=3",
              "parallel.lanes=[1, 2, 1]"}}),
    [](const auto& info) { return info.param.name; });

// With the gradients of every step at peers.
class GradientRecoveryTest : public TorchRecoveryTest {
 protected:
  GradientRecoveryTest() {
    job_.shape().strategy = StrategyKind::kGradients;
    job_.shape().period = 3;
  }
  void expect_no_step_again(const std::vector<SimulatedFault>& faults, uint64_t seed) {
    const TorchOutcome outcome = job_.run_anew(faults, seed);
    ASSERT_TRUE(outcome.job.ok) << outcome.explain();
    EXPECT_EQ(outcome.job.digest, undisturbed_.job.digest) << outcome.explain();
    EXPECT_EQ(outcome.stored_digest, unprotected_) << outcome.explain();
    for (const RecoveryRecord& record : outcome.job.recoveries) {
      EXPECT_FALSE(record.restarted_all) << outcome.explain();
      EXPECT_EQ(record.recomputed_steps, 0) << outcome.explain();
      EXPECT_EQ(record.survivor_recomputed_steps, 0) << outcome.explain();
    }
    recoveries_ += static_cast<int>(outcome.job.recoveries.size());
  }
};

TEST_P(GradientRecoveryTest, EveryLossCostsNoBitAndNoStep) {
  unprotected_ = job_.unprotected_digest();
  undisturbed_ = job_.run_anew({}, 1);
  ASSERT_TRUE(undisturbed_.job.ok) << undisturbed_.explain();
  ASSERT_EQ(undisturbed_.stored_digest, unprotected_) << "protection changes the training";
  for (int32_t rank = 0; rank < world(); ++rank) {
    const uint64_t seed = this->seed("one", rank);
    expect_no_step_again({random_kill(seed, Rank(rank))}, seed);
  }
  EXPECT_GE(recoveries_, world()) << "kills came too late";
  // The longest way from a snapshot, and a loss on that way.
  const SimulatedFault last = kill(Rank(0), "step/after_verdict", 6);
  SimulatedFault inside = kill(Rank(world() - 1), "catch_up/update", 2);
  inside.at_rank = Rank(-1);
  expect_no_step_again({last}, 7);
  expect_no_step_again({last, inside}, 8);
}

INSTANTIATE_TEST_SUITE_P(
    All, GradientRecoveryTest,
    testing::Values(
        Case{"clipped_parts",
             "gpt-moe",
             {"train.clip_norm=0.05", "protection.part_bytes=20000"},
             8,
             1},
        Case{"replicas", "qwen-moe", {"train.precision=bf16", "parallel.expert_replicas=2"}, 8, 1},
        Case{"fp8_state",
             "qwen-moe",
             {"train.precision=fp8", "train.master=fp8", "train.moments=fp8+fp16"},
             8,
             1},
        Case{"fp16",
             "deepseek-moe",
             {"train.precision=fp16", "train.initial_loss_scale=16777216",
              "train.loss_scale_growth_steps=1"},
             8,
             1}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace evermoe
