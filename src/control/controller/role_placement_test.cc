#include "control/controller/role_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;

constexpr absl::Duration kDoubt = absl::Seconds(2);

class RolePlacement : public testing::Test {
 protected:
  RolePlacement() {
    for (int32_t n = 0; n < 3; ++n) nodes_.join(Node(n), now_);
  }
  std::optional<Node> place(int rank) { return node_for(Rank(rank), roles_, nodes_, 2, now_); }
  void starts(int rank, int node) {
    roles_.start(Rank(rank), Node(node), View(1), absl::InfiniteDuration());
  }

  absl::Duration now_ = absl::Seconds(50);
  RoleTable roles_{4};
  NodeTable nodes_{kDoubt};
};

TEST_F(RolePlacement, NeighboursBeginOnOneNodeAndTheSpareIsLeftFree) {
  EXPECT_THAT((std::vector{place(0), place(1), place(2), place(3)}),
              ElementsAre(Node(0), Node(0), Node(1), Node(1)));
}

TEST_F(RolePlacement, ALostRoleReturnsToItsNode) {
  starts(0, 2);
  roles_.lose(Rank(0));
  EXPECT_EQ(place(0), Node(2));
}

TEST_F(RolePlacement, OrGoesWhereTheFewestWorkersAre) {
  for (const int rank : {0, 1}) starts(rank, 0);
  for (const int rank : {2, 3}) starts(rank, 1);
  nodes_.lose(Node(1));
  for (const int rank : {2, 3}) roles_.lose(Rank(rank));
  EXPECT_EQ(place(2), Node(2));
  nodes_.lose(Node(2));
  EXPECT_EQ(place(2), Node(0));
  nodes_.lose(Node(0));
  EXPECT_EQ(place(2), std::nullopt);
}

TEST_F(RolePlacement, ItWaitsForTheVerdictOnANodeThatIsNotHeard) {
  starts(0, 0);
  roles_.lose(Rank(0));
  now_ += kDoubt;
  EXPECT_EQ(place(0), Node(0));
  now_ += absl::Milliseconds(1);
  for (const int n : {1, 2}) nodes_.hear(Node(n), now_);
  EXPECT_EQ(place(0), std::nullopt);
  nodes_.lose(Node(0));
  EXPECT_EQ(place(0), Node(1));
}

TEST_F(RolePlacement, NobodyMovesToANodeThatIsNotHeard) {
  nodes_.lose(Node(0));
  now_ += 2 * kDoubt;
  nodes_.hear(Node(2), now_);
  EXPECT_EQ(place(0), Node(2));
  EXPECT_THAT(nodes_.usable(now_), ElementsAre(Node(2)));
}

TEST_F(RolePlacement, AnOldProcessDoesNotJoinAgain) {
  MemberJoined old{.rank = Rank(0), .since = View(1), .node = Node(0)};
  EXPECT_TRUE(roles_.may_join(old)) << "a controller that takes over knows of nobody";
  roles_.join(old, now_);
  EXPECT_FALSE(roles_.may_join(old)) << "it has";
  roles_.lose(Rank(0));
  roles_.start(Rank(0), Node(1), View(2), absl::InfiniteDuration());
  EXPECT_FALSE(roles_.may_join(old)) << "another one is awaited";
  old.since = View(2);
  EXPECT_TRUE(roles_.may_join(old));
}

}  // namespace
}  // namespace evermoe
