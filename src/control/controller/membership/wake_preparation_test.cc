#include "control/controller/membership/wake_preparation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kStartMax = absl::Seconds(10);

class WakePreparationTest : public testing::Test {
 protected:
  WakePreparation::Decision at(int second, const std::vector<RoleMove>& moves) {
    return preparation_.decide(absl::Seconds(second), moves, standbys_, kStartMax);
  }
  void warm(int node, int count) {
    standbys_.on_kept({.node = Node(node), .warming = 0, .warm = count});
  }

  WakePreparation preparation_;
  StandbyBook standbys_{0};
};

const std::vector<RoleMove> kOne = {{Rank(1), Node(3)}};
const std::vector<RoleMove> kTwo = {{Rank(1), Node(3)}, {Rank(4), Node(3)}, {Rank(5), Node(6)}};

TEST_F(WakePreparationTest, AProcessIsWarmOnTheNodeFirst) {
  const auto first = at(1, kOne);
  EXPECT_FALSE(first.is_over);
  ASSERT_THAT(first.orders, SizeIs(1));
  EXPECT_EQ(first.orders[0].node, Node(3));
  EXPECT_EQ(first.orders[0].count, 1);
  EXPECT_THAT(first.orders[0].roles, ElementsAre(Rank(1)));
  EXPECT_THAT(at(2, kOne).orders, IsEmpty()) << "once is enough";
  warm(3, 1);
  EXPECT_TRUE(at(3, kOne).is_over);
}

TEST_F(WakePreparationTest, OneThatIsWarmAlreadyWillDo) {
  warm(3, 1);
  EXPECT_TRUE(at(1, kOne).is_over);
}

TEST_F(WakePreparationTest, EachRoleHasItsOwn) {
  const auto first = at(1, kTwo);
  ASSERT_THAT(first.orders, SizeIs(2));
  EXPECT_EQ(first.orders[0].count, 2);
  EXPECT_EQ(first.orders[1].node, Node(6));
  warm(3, 2);
  EXPECT_FALSE(at(2, kTwo).is_over);
  warm(6, 1);
  EXPECT_TRUE(at(2, kTwo).is_over);
}

TEST_F(WakePreparationTest, NobodyIsWaitedForWithoutEnd) {
  EXPECT_FALSE(at(1, kOne).is_over);
  EXPECT_EQ(preparation_.deadline(), absl::Seconds(1) + kStartMax);
  EXPECT_FALSE(at(10, kOne).is_over);
  EXPECT_TRUE(at(11, kOne).is_over);
  preparation_.forget();
  EXPECT_EQ(preparation_.deadline(), absl::InfiniteDuration());
  EXPECT_THAT(at(12, kOne).orders, SizeIs(1)) << "anew";
}

TEST_F(WakePreparationTest, WhereOneEndsTheRoleIsStartedAsEver) {
  EXPECT_FALSE(at(1, kTwo).is_over);
  preparation_.on_standby_failure(Node(3));
  EXPECT_FALSE(at(2, kTwo).is_over) << "the other node";
  preparation_.on_standby_failure(Node(6));
  EXPECT_TRUE(at(2, kTwo).is_over);
}

}  // namespace
}  // namespace evermoe
