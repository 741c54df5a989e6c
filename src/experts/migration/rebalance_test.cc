#include "experts/migration/rebalance.h"

#include <gtest/gtest.h>

#include "experts/placement/replica_allocation.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

TEST(ExpertSlowdownTest, ByHand) {
  // Expert 0 (0.6) has three replicas of 0.2, expert 1 (0.4) one: node 1 has 0.6 of 1.
  EXPECT_DOUBLE_EQ(expert_slowdown({{0, 0}, {0, 1}}, std::vector<double>{0.6, 0.4}), 1.2);
  EXPECT_DOUBLE_EQ(expert_slowdown({{0}, {1}}, std::vector<double>{0, 0}), 1);
  EXPECT_DOUBLE_EQ(expert_slowdown({{0, 1}, {1, 0}}, std::vector<double>{5, 3}), 1);
}

TEST(ExpertSlowdownTest, PlansForTheLoadAreBetterThanPlansForNone) {
  TestRandom random(81);
  double planned = 0, uniform = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int nodes = random.integer(4, 32), slots = random.integer(2, 6),
              experts = nodes * slots / 4;
    std::vector<int64_t> loads;
    for (int e = 0; e < experts; ++e)
      loads.push_back(static_cast<int64_t>(1000 / (1 - random.uniform())));
    const std::vector<double> shares(loads.begin(), loads.end());
    const auto slowdown = [&](const std::vector<int64_t>& planned_for) {
      const auto allocation = allocate_replicas(planned_for, nodes, slots, 1);
      const double value =
          expert_slowdown(place_replicas(allocation->replicas, nodes, slots)->experts_of, shares);
      EXPECT_GE(value, 1);
      return value;
    };
    planned += slowdown(loads);
    uniform += slowdown(std::vector<int64_t>(experts, 1));
  }
  EXPECT_LT(planned, 0.6 * uniform);
}

// A job whose evaluations are a line each.
class Job {
 public:
  explicit Job(const RebalanceOptions& options = {}) : options_(options) {}

  bool at(int64_t step, double gain, double migration_seconds = 0) {
    const RebalanceDecision decision = decide_rebalance(Step(step), state_,
                                                        {.slowdown_now = 1.5 * gain,
                                                         .slowdown_after = 1.5,
                                                         .balanced_seconds = 1,
                                                         .migration_seconds = migration_seconds},
                                                        options_);
    state_ = decision.state;
    reason_ = decision.reason;
    EXPECT_EQ(decision.move, reason_.starts_with("move: "));
    return decision.move;
  }
  const std::string& reason() const { return reason_; }
  const RebalanceState& state() const { return state_; }

 private:
  RebalanceOptions options_;
  RebalanceState state_;
  std::string reason_;
};

TEST(RebalanceTest, OneGoodEvaluationIsNotEnough) {
  Job job;
  EXPECT_FALSE(job.at(200, 1.2));
  EXPECT_EQ(job.reason(), "stay: a gain of 1.200, 1 of 2 evaluations at least 1.100");
  EXPECT_TRUE(job.at(220, 1.2));
  EXPECT_EQ(job.reason(),
            "move: slowdown 1.800 to 1.500 saves 0.3 s a step, the migration takes 0 s");
  EXPECT_EQ(job.state().moved, Step(220));
  EXPECT_EQ(job.state().count, 0);
}

TEST(RebalanceTest, BetweenTheThresholdsTheCountStays) {
  Job job;
  EXPECT_FALSE(job.at(200, 1.2));
  EXPECT_FALSE(job.at(210, 1.07));
  EXPECT_EQ(job.state().count, 1);
  EXPECT_TRUE(job.at(220, 1.2));
  EXPECT_FALSE(job.at(400, 1.2));
  EXPECT_FALSE(job.at(410, 1.01));
  EXPECT_EQ(job.reason(), "stay: a gain of 1.010 is below 1.050");
  EXPECT_EQ(job.state().count, 0);
  EXPECT_FALSE(job.at(420, 1.2));
}

TEST(RebalanceTest, PausesAfterAMove) {
  Job job;
  job.at(200, 1.2);
  EXPECT_TRUE(job.at(210, 1.2));
  EXPECT_FALSE(job.at(220, 1.5));
  EXPECT_FALSE(job.at(300, 1.5));
  EXPECT_EQ(job.reason(), "stay: 90 steps since the last move, 100 are the least");
  EXPECT_TRUE(job.at(310, 1.5));
}

TEST(RebalanceTest, AMigrationMustPay) {
  Job job;
  job.at(200, 1.2, 151);
  EXPECT_FALSE(job.at(210, 1.2, 151));  // 0.3 s a step for 500 steps are 150 s
  EXPECT_EQ(job.reason(),
            "stay: saves 0.3 s a step, the migration takes 151 s and must pay within 500 steps");
  EXPECT_TRUE(job.at(220, 1.2, 149));
}

TEST(RebalanceTest, ABrokenPromiseDoesNotWait) {
  const RebalanceDecision decision =
      decide_rebalance(Step(3), {.moved = Step(2)},
                       {.migration_seconds = 1e9, .distinct_now = 1, .distinct_promised = 2});
  EXPECT_TRUE(decision.move);
  EXPECT_EQ(decision.reason, "move: an expert is on 1 nodes, 2 are promised");
}

// A gain that wobbles around the upper threshold: without hysteresis it would move at every pause.
TEST(RebalanceTest, NoiseBelowTheThresholdsNeverMoves) {
  TestRandom random(82);
  Job quiet, noisy;
  int moves = 0;
  for (int64_t step = 0; step < 20'000; step += 10) {
    EXPECT_FALSE(quiet.at(step, 1 + 0.09 * random.uniform()));
    moves += noisy.at(step, 1.0 + 0.15 * random.uniform());
  }
  EXPECT_GT(moves, 0);
  EXPECT_LE(moves, 20'000 / 100);
}

}  // namespace
}  // namespace evermoe
