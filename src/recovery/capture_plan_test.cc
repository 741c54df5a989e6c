#include "recovery/capture_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StageOperator op(const std::string& name, int64_t full, double work = 1) {
  return {name, {full / 2, full / 12}, {full, full / 6}, -1, work};
}

TEST(CapturePlanTest, WhoSavesLittleWhileFrozenIsCapturedFirst) {
  const std::vector<StageOperator> operators = {op("block", 600), op("embedding", 600, 0), op("expert", 600, 0.25)};
  EXPECT_THAT(capture_order(operators), ElementsAre(1, 2, 0));
  EXPECT_THAT(slots_of_operators(operators, 3), ElementsAre(2, 0, 1));
  EXPECT_THAT(slots_of_operators(operators, 1), ElementsAre(0, 0, 0));
}

TEST(CapturePlanTest, SlotsComeFromWholeOperatorsSoThatLanesAgree) {
  std::vector<StageOperator> here = {op("block", 1200), op("expert.0", 600), op("expert.1", 600)};
  std::vector<StageOperator> there = here;
  here[2].bytes = {};   // another lane's expert
  there[1].bytes = {};
  for (int slots = 1; slots <= 4; ++slots) EXPECT_EQ(slots_of_operators(here, slots), slots_of_operators(there, slots));
}

TEST(CapturePlanTest, FewestSlotsForABudget) {
  // Shards of 300 bytes in full, 50 compute-only.
  const std::vector<StageOperator> operators = {op("a", 600), op("b", 600), op("c", 600)};
  EXPECT_EQ(fewest_slots(operators, 900), 1);
  EXPECT_EQ(fewest_slots(operators, 899), 2);  // {a} + b, c compute-only | {b, c}
  EXPECT_EQ(fewest_slots(operators, 400), 3);
  EXPECT_EQ(fewest_slots(operators, 1), 3) << "no budget: one operator in each";
}

TEST(CapturePlanTest, ChoosesSlotsFromMeasuredSteps) {
  SlotChooser chooser({op("a", 600), op("b", 600), op("c", 600)}, 1000);
  EXPECT_EQ(chooser.wanted(), 0);
  for (int i = 0; i < 5; ++i) chooser.add_step(0.9);
  EXPECT_EQ(chooser.wanted(), 1);
  for (int i = 0; i < 40; ++i) chooser.add_step(0.89);
  EXPECT_EQ(chooser.wanted(), 1) << "a pace that hardly moved is no reason";
  for (int i = 0; i < 40; ++i) chooser.add_step(0.6);
  EXPECT_EQ(chooser.wanted(), 2);
}

TEST(CapturePlanTest, MemoryNeedIsTheSumOfItsParts) {
  const std::vector<StageOperator> operators = {op("a", 600), op("b", 600)};
  const MemoryNeed need = memory_need(operators, 2, 2, 1, 10);
  EXPECT_EQ(need.snapshots, 2 * (300 + 300 + 50));  // b is taken compute-only once
  EXPECT_EQ(need.copies, need.snapshots);
  EXPECT_EQ(need.log, 50);
  EXPECT_TRUE(check_budget(need, need.total(), 2, 1).ok());
  const absl::Status refused = check_budget(need, need.total() - 1, 2, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("protection.memory_budget"));
}

TEST(CapturePlanTest, TheLongestWindowIsTheLastOneThatFits) {
  std::vector<StageOperator> operators;
  for (int i = 0; i < 6; ++i) operators.push_back(op(absl::StrCat("expert.", i), 600));
  const auto need = [&](int slots) { return memory_need(operators, slots, slots, 1, 10).total(); };
  for (int slots = 1; slots < 6; ++slots) {
    EXPECT_LT(need(slots), need(slots + 1));
    EXPECT_EQ(longest_window(operators, 6, 0, 1, 10, need(slots)), slots);
    EXPECT_EQ(longest_window(operators, 6, 0, 1, 10, need(slots + 1) - 1), slots);
  }
  EXPECT_EQ(longest_window(operators, 6, 0, 1, 10, need(1) - 1), 0);
  EXPECT_EQ(longest_window(operators, 6, 0, 1, 10, 1 << 30), 6);
}

}  // namespace
}  // namespace evermoe
