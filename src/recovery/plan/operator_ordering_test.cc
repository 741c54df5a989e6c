#include "recovery/plan/operator_ordering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StageOperator shared(const std::string& name, double tokens, int64_t full = 600) {
  return {
      .name = name, .bytes = {full / 2, full / 12}, .whole = {full, full / 6}, .tokens = tokens};
}
StageOperator expert(int index, int lanes = 1) {
  return {.name = "expert",
          .bytes = {600, 100},
          .whole = {600, 100},
          .expert = index,
          .lanes = lanes,
          .tokens = 10};
}

// A block, an embedding and four experts.
std::vector<StageOperator> stage() {
  return {shared("block", 40), shared("embedding", 0), expert(0), expert(1), expert(2),
          expert(3, 2)};
}

ExpertLoads loads(std::vector<int64_t> tokens, std::vector<double> probability = {}) {
  if (probability.empty()) probability.assign(tokens.begin(), tokens.end());
  return {std::move(tokens), std::move(probability)};
}

OperatorOrdering after(const std::vector<ExpertLoads>& steps, OrderBy by) {
  OperatorOrdering ordering(stage(), {.by = by});
  for (const ExpertLoads& step : steps) ordering.add_step(step);
  ordering.begin_window();
  return ordering;
}

TEST(OperatorOrderingTest, BeforeAnythingIsCountedWhoSavesLittleWhileFrozenComesFirst) {
  for (const OrderBy by : {OrderBy::kExpectedCost, OrderBy::kPopularity, OrderBy::kRatio}) {
    OperatorOrdering ordering(stage(), {.by = by});
    EXPECT_EQ(ordering.begin_window(), std::nullopt);
    EXPECT_FALSE(ordering.is_counted());
    EXPECT_THAT(ordering.window(3).order, ElementsAre(1, 2, 3, 4, 5, 0));
    EXPECT_THAT(ordering.slots_of_operators(3), ElementsAre(2, 0, 0, 1, 1, 2));
    EXPECT_THAT(ordering.slots_of_operators(1), ElementsAre(0, 0, 0, 0, 0, 0));
  }
}

TEST(OperatorOrderingTest, EveryKindOrdersByItsOwnMeasure) {
  const std::vector<ExpertLoads> steps = {loads({30, 2, 4, 4}, {1, 9, 20, 10}),
                                          loads({1, 20, 9, 10}, {1, 9, 20, 10})};
  EXPECT_THAT(after(steps, OrderBy::kPopularity).window(3).order, ElementsAre(4, 5, 3, 2, 0, 1))
      << "13, 14, 22 and 31 tokens";
  EXPECT_THAT(after(steps, OrderBy::kSoft).window(3).order, ElementsAre(2, 3, 5, 4, 0, 1));
  EXPECT_THAT(after(steps, OrderBy::kCapacity).window(3).order, ElementsAre(5, 4, 3, 2, 0, 1))
      << "14 tokens for two lanes";
  EXPECT_THAT(after(steps, OrderBy::kRatio).window(3).order, ElementsAre(1, 4, 5, 3, 2, 0))
      << "the embedding saves nothing";
  EXPECT_THAT(after({loads({90, 0, 5, 5}), loads({0, 50, 25, 25}), loads({0, 50, 25, 25})},
                    OrderBy::kDecayed)
                  .window(3)
                  .order,
              ElementsAre(4, 5, 2, 3, 0, 1))
      << "decay 0.9: 7.3 of expert 0, 9.5 of expert 1, 5.2 of the others";
}

// What the order is worth, against every permutation of the experts and the two others.
TEST(OperatorOrderingTest, ExpectedCostIsAtLeastAsGoodAsBothOrders) {
  const std::vector<ExpertLoads> steps = {loads({30, 2, 14, 4})};
  const OperatorOrdering ordering = after(steps, OrderBy::kExpectedCost);
  const auto known = ordering.profiles(1, &StageOperator::whole);
  const auto saved = [&](const CaptureOrder& order, int slots) {
    return frozen_seconds_saved(known, order, balanced_window(costs_in_order(known, order), slots));
  };
  for (int slots = 1; slots <= 6; ++slots) {
    const double best = saved(ordering.window(slots).order, slots);
    EXPECT_GE(best, saved(after(steps, OrderBy::kPopularity).window(slots).order, slots));
    EXPECT_GE(best, saved(after(steps, OrderBy::kRatio).window(slots).order, slots));
  }
}

TEST(OperatorOrderingTest, SecondsAddUpToTheStep) {
  double sum = 0;
  for (const OperatorProfile& op :
       after({loads({30, 2, 4, 4})}, OrderBy::kRatio).profiles(2.5, &StageOperator::whole)) {
    sum += op.forward_seconds + op.gradient_seconds;
  }
  EXPECT_NEAR(sum, 2.5, 1e-12);
}

TEST(OperatorOrderingTest, OrdersAnewOnlyWhenAQuarterOfTheExpertsMoved) {
  OperatorOrdering ordering(stage(), {.by = OrderBy::kPopularity});
  ordering.add_step(loads({100, 200, 300, 400}));
  EXPECT_TRUE(ordering.begin_window());
  EXPECT_EQ(ordering.begin_window(), std::nullopt) << "the same state";
  ordering.add_step(loads({100, 200, 300, 400}));
  EXPECT_EQ(ordering.begin_window(), std::nullopt) << "the same shares";
  ordering.add_step(loads({400, 300, 200, 100}));
  const auto why = ordering.begin_window();
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("4 of 4 experts"));
  EXPECT_THAT(ordering.window(2).order, ElementsAre(2, 3, 4, 5, 0, 1));
}

TEST(OperatorOrderingTest, LanesAgreeWhateverShardsTheyHave) {
  std::vector<StageOperator> here = stage(), there = stage();
  here[2].bytes = {};
  there[3].bytes = {};
  OperatorOrdering one(here, {}), other(there, {});
  for (OperatorOrdering* ordering : {&one, &other}) {
    ordering->add_step(loads({7, 1, 5, 3}));
    ordering->begin_window();
  }
  for (int slots = 1; slots <= 6; ++slots)
    EXPECT_EQ(one.slots_of_operators(slots), other.slots_of_operators(slots));
}

// A stage that goes back takes the order up with the snapshot and counts on from there.
TEST(OperatorOrderingTest, ItsStateGoesOnWhereItWas) {
  for (const OrderBy by :
       {OrderBy::kExpectedCost, OrderBy::kPopularity, OrderBy::kSoft, OrderBy::kDecayed}) {
    OperatorOrdering lived = after({loads({30, 2, 14, 4}, {1.25, 3, 0.1, 7})}, by);
    const RecordBytes state = lived.state();
    OperatorOrdering fresh(stage(), {.by = by});
    EXPECT_EQ(fresh.state().size(), state.size());
    ASSERT_TRUE(fresh.set_state(state).ok());
    for (OperatorOrdering* ordering : {&lived, &fresh}) {
      ordering->add_step(loads({1, 50, 3, 9}, {0.1, 0.2, 0.3, 0.4}));
      ordering->begin_window();
    }
    EXPECT_EQ(lived.state(), fresh.state());
    EXPECT_EQ(lived.slots_of_operators(4), fresh.slots_of_operators(4));
  }
  OperatorOrdering ordering(stage(), {});
  EXPECT_TRUE(absl::IsDataLoss(ordering.set_state(RecordBytes(7))));
}

TEST(OperatorOrderingTest, AStageWithoutExpertsKeepsItsOrder) {
  OperatorOrdering ordering({shared("block", 40), shared("embedding", 0)}, {});
  ordering.add_step({});
  EXPECT_EQ(ordering.begin_window(), std::nullopt);
  EXPECT_THAT(ordering.window(2).order, ElementsAre(1, 0));
}

}  // namespace
}  // namespace evermoe
