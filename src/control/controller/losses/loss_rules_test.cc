// What follows from the loss of a worker, in invented time.
#include "control/controller/losses/loss_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Topology kFourWorkers({2, 2}, 2);

class Rules {
 public:
  explicit Rules(ControllerOptions options) : options_(options), rules_(kFourWorkers, options_) {}

  Rules& starts(int32_t rank, double seconds) {
    return rules_.on_start(at(seconds), Rank(rank), Node(0), role(rank)), *this;
  }
  LossDecision loses(int32_t rank, double seconds, bool with_node = false) {
    return rules_.on_loss(at(seconds), {Rank(rank), "killed", with_node}, role(rank), Commit(-1));
  }
  LossRules& rules() { return rules_; }
  static absl::Duration at(double seconds) { return absl::Seconds(1000 + seconds); }

 private:
  RoleState& role(int32_t rank) { return roles_[Rank(rank)]; }
  const ControllerOptions options_;
  RoleTable roles_{4};
  LossRules rules_;
};

ControllerOptions without_protection(int restarts_max) {
  ControllerOptions options;
  options.strategy = strategy_of(StrategyKind::kNone);
  options.restarts_max = restarts_max;
  options.backoff = absl::Seconds(4);
  return options;
}

TEST(LossRules, AProtectedRoleIsStartedAgainWithoutAWord) {
  Rules job({.restarts_max = 3});
  const LossDecision decision = job.starts(0, 0).loses(0, 60);
  EXPECT_THAT(decision.news, IsEmpty());
  EXPECT_FALSE(decision.end);
  EXPECT_LE(job.rules().start_at(Rank(0)), Rules::at(60));
}

TEST(LossRules, ARoleThatKeepsEndingEndsTheJob) {
  Rules job({.restarts_max = 1});
  EXPECT_FALSE(job.starts(0, 0).loses(0, 60).end);
  const LossDecision decision = job.starts(0, 61).loses(0, 120);
  ASSERT_TRUE(decision.end);
  EXPECT_EQ(decision.end->reason,
            "given up after 1 restarts in a row of worker 0.0 without progress beyond step 0 "
            "(run.restarts_max); the last failure: killed");
  EXPECT_TRUE(decision.end->is_hopeless);
}

TEST(LossRules, WhereItsNodeIsLostAnotherMayDo) {
  Rules job({.restarts_max = 1});
  job.starts(0, 0).loses(0, 60, /*with_node=*/true);
  const LossDecision decision = job.starts(0, 61).loses(0, 120, /*with_node=*/true);
  ASSERT_TRUE(decision.end);
  EXPECT_FALSE(decision.end->is_hopeless);
}

TEST(LossRules, ProgressBeginsAllCountsAnew) {
  Rules job({.restarts_max = 1});
  EXPECT_FALSE(job.starts(0, 0).loses(0, 60).end);
  job.rules().on_progress();
  EXPECT_FALSE(job.starts(0, 61).loses(0, 120).end);
}

TEST(LossRules, LossesTogetherAreOne) {
  Rules job({.losses_max = 1});
  job.starts(0, 0).starts(1, 0).starts(2, 0);
  EXPECT_FALSE(job.loses(0, 60).end);
  EXPECT_FALSE(job.loses(1, 60).end);
  job.starts(0, 61).starts(1, 61);
  const LossDecision decision = job.loses(0, 120);
  ASSERT_TRUE(decision.end);
  EXPECT_EQ(decision.end->reason, "2 losses without any progress; the last: 0.0: killed");
}

TEST(LossRules, WithoutProtectionAllStartAgainLaterEachTime) {
  Rules job(without_protection(2));
  EXPECT_THAT(job.starts(0, 0).starts(1, 0).loses(0, 60).news,
              ElementsAre(HasSubstr("restart 1 of at most 2 in a row without progress")));
  EXPECT_THAT(job.loses(1, 60).news, IsEmpty()) << "because of the first one";
  EXPECT_EQ(job.rules().start_at(Rank(3)), Rules::at(64));
  EXPECT_THAT(job.starts(0, 64).loses(0, 120).news, Contains(HasSubstr("restart 2 of")));
  const LossDecision decision = job.starts(0, 128).loses(0, 200);
  ASSERT_TRUE(decision.end);
  EXPECT_EQ(decision.end->reason,
            "given up after 2 restarts in a row without progress beyond step 0 (run.restarts_max); "
            "the last failure: worker 0.0: killed");
}

TEST(LossRules, ARestartThatNoLossExplainsIsAFailureToo) {
  Rules job(without_protection(2));
  const auto restart = [&] {
    return job.rules().on_restart_of_all(Rules::at(60), "no copies", Commit(7)).news;
  };
  EXPECT_THAT(restart(), IsEmpty()) << "the first plan";
  job.rules().on_plan();
  EXPECT_THAT(restart(), ElementsAre(HasSubstr("restart 1 of at most 2")));
  EXPECT_THAT(restart(), IsEmpty()) << "it is counted";
}

}  // namespace
}  // namespace evermoe
