#include "recovery/plan/protection_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::HasSubstr;

TEST(ProtectionMemoryTest, MemoryNeedIsTheSumOfItsParts) {
  const std::vector<OperatorBytes> operators = {{300, 50}, {300, 50}};
  const MemoryNeed need = memory_need(operators, 2, 2, 1, 10);
  EXPECT_EQ(need.snapshots, 2 * (600 + 100));  // whichever is second is taken compute-only once
  EXPECT_EQ(need.copies, need.snapshots);
  EXPECT_EQ(need.log, 50);
  EXPECT_TRUE(check_budget(need, need.total(), 2, 1).ok());
  const absl::Status refused = check_budget(need, need.total() - 1, 2, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("protection.memory_budget"));
}

TEST(ProtectionMemoryTest, TheLongestWindowIsTheLastOneThatFits) {
  const std::vector<OperatorBytes> operators(6, {300, 50});
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
