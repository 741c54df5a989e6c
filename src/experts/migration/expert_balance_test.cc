#include "experts/migration/expert_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "experts/placement/load_sharing.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;

constexpr BalanceOptions kOptions{.slots = 3, .every_steps = 10, .memory_steps = 10, .gain = 1.05};

// Two layers of four experts on two lanes.
class ExpertBalanceTest : public ::testing::Test {
 protected:
  ExpertBalanceTest() : balance_(initial_balance(2, 4)) { settle(balance_, lanes_, kOptions); }
  void count(const std::vector<double>& tokens, int steps) {
    for (int i = 0; i < steps; ++i) count_step(balance_, tokens, kOptions);
  }

  const std::vector<int> lanes_ = {2, 2};
  ExpertBalance balance_;
};

TEST_F(ExpertBalanceTest, BeginsEvenAndStaysWhereLoadsAreEven) {
  count({10, 10, 10, 10, 10, 10, 10, 10}, 50);
  const Rebalance result = rebalanced(balance_, kOptions);
  EXPECT_THAT(result.moves, ElementsAre(false, false));
  EXPECT_EQ(result.balance, balance_);
  EXPECT_EQ(result.imbalance_before, result.imbalance_after);
}

TEST_F(ExpertBalanceTest, TheLayerWhoseLoadIsSkewedMovesAndTheOtherStays) {
  count({0, 30, 0, 10, 10, 10, 10, 10}, 50);
  const Rebalance result = rebalanced(balance_, kOptions);
  EXPECT_THAT(result.moves, ElementsAre(true, false));
  EXPECT_LT(result.imbalance_after, result.imbalance_before);
  EXPECT_EQ(placement_of(result.balance[0]).lanes_of(1).size(), 2);
  EXPECT_EQ(result.balance[1], balance_[1]);
}

TEST_F(ExpertBalanceTest, AskedAgainAtTheSameStateNothingMoves) {
  TestRandom random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> tokens;
    for (int i = 0; i < 8; ++i) tokens.push_back(static_cast<double>(random.integer(0, 99)));
    count(tokens, 1 + random.integer(0, 19));
    balance_ = rebalanced(balance_, kOptions).balance;
    const Rebalance again = rebalanced(balance_, kOptions);
    EXPECT_EQ(again.balance, balance_);
  }
}

TEST_F(ExpertBalanceTest, ReplicasAreAsFewAsAreEnough) {
  for (const LayerBalance& layer : balance_) EXPECT_FALSE(placement_of(layer).has_replicas());
  count({20, 10, 10, 20, 10, 10, 10, 10}, 50);  // even without a replica
  EXPECT_FALSE(placement_of(rebalanced(balance_, kOptions).balance[0]).has_replicas());
  BalanceOptions survives = kOptions;
  survives.faults = 1;
  ExpertBalance again = initial_balance(2, 4);
  settle(again, lanes_, survives);
  for (const LayerBalance& layer : again) {
    for (int e = 0; e < 4; ++e) EXPECT_EQ(placement_of(layer).lanes_of(e).size(), 2);
  }
}

// Numbers of slots that are passed over by a look at the loads would not have been enough.
TEST_F(ExpertBalanceTest, ThereIsNoPlanOfFewerSlotsThatIsEnough) {
  TestRandom random(8);
  for (int round = 0; round < 500; ++round) {
    const int experts = random.integer(1, 24), lanes = random.integer(1, 40);
    const BalanceOptions options{.slots = random.integer(1, 12), .gain = 1.05};
    ExpertBalance balance = initial_balance(1, experts);
    for (int64_t& load : balance[0].loads) load = random.integer(1, 999) * random.integer(1, 99);
    settle(balance, {&lanes, 1}, options);
    const auto slowdown = [&](int slots) {
      return slowdown_of(balance[0].loads,
                         plan_by_load(balance[0].loads, {.lanes = lanes, .slots = slots}));
    };
    const int most = slots_of_lane(options, experts, lanes);
    const int least = (experts + lanes - 1) / lanes;
    int slots = least;
    for (int more = 0; slots < most; more = 2 * more + 1) {
      slots = std::min(most, least + more);
      if (slowdown(slots) <= options.gain * slowdown(most)) break;
    }
    EXPECT_EQ(balance[0].experts_of,
              place_by_load(balance[0].loads, {.lanes = lanes, .slots = slots}));
  }
}

TEST_F(ExpertBalanceTest, ALittleSkewMovesNothing) {
  count({10, 10, 10, 11, 10, 10, 10, 10}, 50);
  EXPECT_EQ(rebalanced(balance_, kOptions).balance, balance_);
}

// Whatever was placed before: a job that goes on from a checkpoint with other lanes comes to the
// same.
TEST_F(ExpertBalanceTest, OtherLanesArePlacedByTheLoadsAlone) {
  count({0, 30, 0, 10, 10, 10, 30, 10}, 50);
  ExpertBalance moved = rebalanced(balance_, kOptions).balance;
  ExpertBalance stayed = balance_;
  const std::vector<int> lanes = {3, 2};
  settle(moved, lanes, kOptions);
  settle(stayed, lanes, kOptions);
  EXPECT_EQ(moved[0], stayed[0]);
  EXPECT_EQ(moved[0].experts_of.size(), 3);
  EXPECT_EQ(stayed[1], balance_[1]);
}

TEST_F(ExpertBalanceTest, OlderStepsWeighLess) {
  count({40, 0, 0, 0, 0, 0, 0, 0}, 100);
  EXPECT_NEAR(static_cast<double>(balance_[0].loads[0]), 40 * kLoadUnit, 0.01 * 40 * kLoadUnit);
  count({0, 40, 0, 0, 0, 0, 0, 0}, 7);
  EXPECT_GT(balance_[0].loads[1], balance_[0].loads[0]);
  count({0, 40, 0, 0, 0, 0, 0, 0}, 2000);
  EXPECT_LT(balance_[0].loads[0], kOptions.memory_steps);
}

TEST_F(ExpertBalanceTest, IsLookedAtEverySoManySteps) {
  EXPECT_FALSE(is_balance_due(Step(0), kOptions));
  EXPECT_FALSE(is_balance_due(Step(9), kOptions));
  EXPECT_TRUE(is_balance_due(Step(10), kOptions));
  EXPECT_TRUE(is_balance_due(Step(20), kOptions));
}

TEST_F(ExpertBalanceTest, GoesIntoNumbersAndBack) {
  count({3, 30, 1, 10, 10, 10, 30, 10}, 50);
  const std::vector<int64_t> numbers = to_numbers(balance_);
  const auto back = balance_from(numbers, 2, 4);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, balance_);
  const auto fresh = initial_balance(2, 4);
  EXPECT_EQ(*balance_from(to_numbers(fresh), 2, 4), fresh);
  EXPECT_TRUE(balance_from({}, 0, 4)->empty());
}

TEST_F(ExpertBalanceTest, OtherNumbersAreRefused) {
  const std::vector<int64_t> numbers = to_numbers(balance_);
  for (size_t size = 0; size < numbers.size(); ++size)
    EXPECT_FALSE(balance_from(std::span(numbers).first(size), 2, 4).ok()) << size;
  EXPECT_FALSE(balance_from(numbers, 1, 4).ok());
  EXPECT_FALSE(balance_from(numbers, 2, 5).ok());
  TestRandom random(3);
  for (int round = 0; round < 5000; ++round) {
    std::vector<int64_t> damaged = numbers;
    damaged[random.next() % damaged.size()] = random.integer(0, 11) - 3;
    const auto read = balance_from(damaged, 2, 4);
    if (!read.ok()) continue;
    for (const LayerBalance& layer : *read) EXPECT_TRUE(is_placed_well(layer.experts_of, 4));
  }
}

}  // namespace
}  // namespace evermoe
