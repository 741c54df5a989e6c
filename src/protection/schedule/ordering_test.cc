#include "protection/schedule/ordering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "protection/counter_random_testing.h"
#include "protection/schedule/popularity.h"

namespace evermoe {
namespace {

OperatorProfile expert(int index, int64_t full_bytes = 12, double gradient_seconds = 1) {
  return {.expert = index,
          .cost = {full_bytes, full_bytes / 6},
          .forward_seconds = 2,
          .gradient_seconds = gradient_seconds};
}
OperatorProfile non_expert(int64_t full_bytes = 12, double gradient_seconds = 1) {
  return expert(-1, full_bytes, gradient_seconds);
}

// MoEtion 3.5: ascending popularity defers popular experts; non-experts are always active.
TEST(OrderingPaperTest, PopularExpertsLateAndNonExpertsLast) {
  const std::vector<OperatorProfile> operators{non_expert(), expert(0), expert(1),
                                               non_expert(), expert(2), expert(3)};
  EXPECT_EQ(order_by_popularity(operators, std::vector<double>{30, 10, 20, 10}),
            (CaptureOrder{2, 5, 4, 1, 0, 3}));  // experts 1 and 3 tie: by index
}

TEST(OrderingTest, OnePopularityCanServeSeveralLayers) {
  // Two layers of two experts; the caller numbers (layer, expert) as it likes.
  const std::vector<OperatorProfile> operators{expert(0), expert(1), expert(2), expert(3)};
  EXPECT_EQ(order_by_popularity(operators, std::vector<double>{7, 3, 1, 9}),
            (CaptureOrder{2, 1, 0, 3}));
}

// An embedding is large but computes almost nothing: it belongs first.
TEST(OrderingTest, RatioPutsTheEmbeddingFirstAndTheCostlyLast) {
  const std::vector<OperatorProfile> operators{expert(0, 12, 1), non_expert(1200, 0.5),
                                               non_expert(12, 3), expert(1, 24, 1),
                                               non_expert(0, 0)};
  EXPECT_EQ(order_by_ratio(operators), (CaptureOrder{1, 3, 0, 2, 4}));
  EXPECT_EQ(order_by_popularity(operators, std::vector<double>{5, 1}),
            (CaptureOrder{3, 0, 1, 2, 4}));
}

TEST(OrderingTest, SavedSecondsCountSlotsBeforeTheTurn) {
  const std::vector<OperatorProfile> operators{expert(0, 12, 5), expert(1, 12, 7),
                                               expert(2, 12, 11)};
  const CaptureOrder order{2, 0, 1};
  const Window window = balanced_window(costs_in_order(operators, order), 3);
  EXPECT_DOUBLE_EQ(frozen_seconds_saved(operators, order, window), 0 * 11 + 1 * 5 + 2 * 7);
}

// Smith's rule: with equal bytes no permutation saves more than the ratio order.
TEST(OrderingTest, RatioOrderSavesMostAmongAllPermutationsOfEqualOperators) {
  CounterRandom random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<OperatorProfile> operators(random.integer(1, 6));
    for (OperatorProfile& o : operators)
      o = expert(0, 12, static_cast<double>(random.integer(0, 9)));
    const int length = static_cast<int>(random.integer(1, 6));
    const CaptureOrder ratio = order_by_ratio(operators);
    const Window window = balanced_window(costs_in_order(operators, ratio), length);
    CaptureOrder order(operators.size());
    std::iota(order.begin(), order.end(), 0);
    double most = 0;
    do {
      most = std::max(most, frozen_seconds_saved(operators, order, window));
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_DOUBLE_EQ(frozen_seconds_saved(operators, ratio, window), most);
  }
}

// The paper's 33 % is one frozen operator: with w a third of a step and uniform popularity,
// catch-up is a sixth cheaper for any W, all of recovery 7 to 9 %.
TEST(OrderingPaperTest, FreezingSavesASixthOfCatchUp) {
  for (const int length : {3, 5, 6}) {
    std::vector<OperatorProfile> operators(length * 10, expert(0, 12, 1));  // f = 2, w = 1
    CaptureOrder order(operators.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<Slot> slots;
    for (int k = 0; k < length; ++k) slots.push_back({k * 10, k * 10 + 10});
    const double full_step = 3.0 * static_cast<double>(operators.size());
    const double saved = frozen_seconds_saved(operators, order, {.slots = slots});
    EXPECT_NEAR(saved / ((length - 1) * full_step), 1 / 6.0, 1e-12);
    EXPECT_GT(saved / (1.5 * length * full_step), 0.07);
    EXPECT_LT(saved / (1.5 * length * full_step), 0.093);
  }
}

TEST(PopularityPaperTest, HardSoftDecayedAndCapacityAwareAsDefined) {
  Popularity popularity(2, 0.75);
  popularity.add_step(std::vector<int64_t>{8, 4}, std::vector<double>{0.5, 0.25});
  popularity.add_step(std::vector<int64_t>{0, 16}, std::vector<double>{1, 2});
  EXPECT_EQ(popularity.hard(), (std::vector<double>{8, 20}));
  EXPECT_EQ(popularity.soft(), (std::vector<double>{1.5, 2.25}));
  // A(1) = 0.25 x tokens, A(2) = 0.75 A(1) + 0.25 x tokens.
  EXPECT_EQ(popularity.decayed(), (std::vector<double>{0.75 * 2, 0.75 * 1 + 4}));
  EXPECT_EQ(capacity_normalized(popularity.hard(), std::vector<double>{2, 10}),
            (std::vector<double>{4, 2}));
  EXPECT_EQ(popularity.steps(), 2);
}

TEST(PopularityTest, KindsOrderDifferently) {
  Popularity popularity(2, 0.5);
  popularity.add_step(std::vector<int64_t>{100, 10}, std::vector<double>{1, 3});
  for (int i = 0; i < 4; ++i)
    popularity.add_step(std::vector<int64_t>{5, 20}, std::vector<double>{1, 3});
  const std::vector<OperatorProfile> operators{expert(0), expert(1)};
  EXPECT_EQ(order_by_popularity(operators, popularity.hard()), (CaptureOrder{1, 0}));
  EXPECT_EQ(order_by_popularity(operators, popularity.decayed()), (CaptureOrder{0, 1}));
  EXPECT_EQ(order_by_popularity(operators, popularity.soft()), (CaptureOrder{0, 1}));
}

// MoEtion 3.5: "at least 25 % of experts exhibit a change in activation frequency exceeding 10 %".
TEST(PopularityPaperTest, ReordersWhenAQuarterMovedByMoreThanATenth) {
  const std::vector<double> then{100, 100, 100, 100, 100, 100, 100, 100};
  const auto decide = [&](std::vector<double> now) { return should_reorder(then, now, {}); };
  EXPECT_FALSE(decide(then).reorder);
  // Two of eight by exactly 10 %: not more.
  EXPECT_FALSE(decide({110, 90, 100, 100, 100, 100, 100, 100}).reorder);
  // One of eight by more; the rest share what it lost.
  EXPECT_FALSE(decide({93, 101, 101, 101, 101, 101, 101, 101}).reorder);
  const auto one = decide({86, 102, 102, 102, 102, 102, 102, 102});
  EXPECT_EQ(one.changed, 1);
  EXPECT_FALSE(one.reorder);
  const auto two = decide({111, 89, 100, 100, 100, 100, 100, 100});
  EXPECT_EQ(two.changed, 2);
  EXPECT_TRUE(two.reorder);
  EXPECT_EQ(two.reason,
            "2 of 8 experts changed their share by more than 10 %, a new order needs 25 %");
}

TEST(PopularityTest, TenPercentIsRelativeToTheExpertsFormerShare) {
  // Expert 0 goes from 1 % to 2 % of the tokens, expert 1 from 99 % to 98 %: one point each.
  const auto decision = should_reorder(std::vector<double>{1, 99}, std::vector<double>{2, 98}, {});
  EXPECT_EQ(decision.changed, 1);
  EXPECT_TRUE(decision.reorder);
  // The share counts, not the number of tokens.
  EXPECT_EQ(should_reorder(std::vector<double>{1, 99}, std::vector<double>{10, 990}, {}).changed,
            0);
}

TEST(PopularityTest, FirstUseIsAChangeAndNothingSeenIsNone) {
  EXPECT_EQ(should_reorder(std::vector<double>{0, 0}, std::vector<double>{5, 0}, {}).changed, 1);
  EXPECT_EQ(should_reorder(std::vector<double>{0, 5}, std::vector<double>{1, 5}, {}).changed, 2);
  EXPECT_FALSE(should_reorder(std::vector<double>{3, 5}, std::vector<double>{0, 0}, {}).reorder);
  const std::vector<double> nothing{0, 0};
  EXPECT_FALSE(should_reorder(nothing, nothing, {.experts_percent = 0}).reorder);
}

}  // namespace
}  // namespace evermoe
