#include "recovery/plan/protection_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::HasSubstr;

const Strategy kSparse = strategy_of(StrategyKind::kSparse);

TEST(ProtectionMemoryTest, MemoryNeedIsTheSumOfItsParts) {
  const std::vector<OperatorBytes> operators = {{300, 50}, {300, 50}};
  const MemoryNeed need = memory_need(operators, 2, {kSparse, 1, 10});
  EXPECT_EQ(need.snapshots, 2 * (600 + 100));  // whichever is second is taken compute-only once
  EXPECT_EQ(need.copies, need.snapshots);
  EXPECT_EQ(need.log, 50);
  EXPECT_TRUE(check_budget(need, need.total(), 2, 1).ok());
  const absl::Status refused = check_budget(need, need.total() - 1, 2, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("protection.memory_budget"));
}

TEST(ProtectionMemoryTest, OnlyAStageThatGoesBackAloneNeedsTheMessagesOfWindows) {
  const std::vector<OperatorBytes> operators = {{300, 50}};
  const auto log = [&](StrategyKind kind) {
    Strategy strategy = strategy_of(kind);
    strategy.captures.period = 20;
    return memory_need(operators, 1, {strategy, 1, 10}).log;
  };
  EXPECT_EQ(log(StrategyKind::kDense), 410);
  EXPECT_EQ(log(StrategyKind::kPeerMemory), 30);
  EXPECT_EQ(log(StrategyKind::kNone), 30);
}

TEST(ProtectionMemoryTest, GradientsAreKeptUntilTheNextSnapshotIsComplete) {
  const std::vector<OperatorBytes> operators = {{300, 50, 100}, {30, 5, 10}};
  Strategy strategy = strategy_of(StrategyKind::kGradients);
  strategy.captures.period = 8;
  const MemoryNeed need = memory_need(operators, 1, {strategy, 2, 10});
  EXPECT_EQ(need.snapshots, 2 * 330);
  EXPECT_EQ(need.gradients, 11 * 110);
  EXPECT_EQ(need.copies, 2 * (660 + 1210));
  EXPECT_EQ(need.log, 30);
  EXPECT_THAT(std::string(check_budget(need, need.total() - 1, 1, 2).message()),
              HasSubstr("protection.base_every_steps"));
  EXPECT_EQ(memory_need(operators, 1, {kSparse, 2, 10}).gradients, 0);
}

TEST(ProtectionMemoryTest, TheLongestWindowIsTheLastOneThatFits) {
  const std::vector<OperatorBytes> operators(6, {300, 50});
  const auto need = [&](int slots) {
    return memory_need(operators, slots, {kSparse, 1, 10}).total();
  };
  Strategy up_to_six = kSparse;
  up_to_six.captures.slots_max = 6;
  const auto longest = [&](int64_t budget) {
    return longest_window(operators, {up_to_six, 1, 10}, budget);
  };
  for (int slots = 1; slots < 6; ++slots) {
    EXPECT_LT(need(slots), need(slots + 1));
    EXPECT_EQ(longest(need(slots)), slots);
    EXPECT_EQ(longest(need(slots + 1) - 1), slots);
  }
  EXPECT_EQ(longest(need(1) - 1), 0);
  EXPECT_EQ(longest(1 << 30), 6);
}

}  // namespace
}  // namespace evermoe
