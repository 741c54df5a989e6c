#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/simulate/lossy_ages.h"

namespace evermoe {
namespace {

// The numbers of PEC's section 5, checked by hand: 8 experts, a save every 10 steps, failures at
// steps.
double lost_tokens(int saved, const std::vector<int64_t>& faults) {
  LossyAges ages({.experts = 8, .saved = saved});
  double steps = 0;
  int64_t committed = 0;
  for (const int64_t fault : faults) {
    committed = std::max(committed, fault / 10 * 10);
    steps += ages.fault(committed, 10);
  }
  return steps * 800;  // 100 tokens for each expert and step
}

TEST(LossyAgesPaperTest, LostTokensOfTheExamples) {
  EXPECT_EQ(lost_tokens(1, {505}), 28000);
  EXPECT_EQ(lost_tokens(2, {505}), 12000);
  EXPECT_EQ(lost_tokens(4, {505}), 4000);
  EXPECT_EQ(lost_tokens(8, {505}), 0);
  EXPECT_EQ(lost_tokens(1, {505, 507}), 28000);
  EXPECT_EQ(lost_tokens(1, {505, 515}), 35000);
  EXPECT_EQ(lost_tokens(1, {505, 545}), 50000);
  EXPECT_EQ(lost_tokens(1, {3}), 0);
  EXPECT_EQ(lossy_steps_per_fault({8, 2}, 10) * 800, 12000);
}

// 35 steps from storage (28,000 of 800), and nothing from memory that has all of them; with two of
// eight in memory the others there are up to three saves old, 15 steps on average.
TEST(LossyAgesTest, OnlyLostNodesRestoreFromStorage) {
  EXPECT_DOUBLE_EQ(LossyAges({8, 1, 8}).fault(500, 10, 0.25), 0.25 * 35);
  EXPECT_DOUBLE_EQ(LossyAges({8, 1, 2}).fault(500, 10, 0.25), 0.25 * 35 + 0.75 * 15);
  EXPECT_DOUBLE_EQ(LossyAges({8, 1, 8}).fault(500, 10, 1), 35);
}

}  // namespace
}  // namespace evermoe
