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
  std::optional<Node> place(int rank) {
    return node_for(now_, Rank(rank),
                    {.roles = roles_,
                     .nodes = nodes_,
                     .restarts = restarts_,
                     .standbys = standbys_,
                     .nodes_at_start = 2,
                     .may_leave = true});
  }
  void starts(int rank, int node) {
    roles_.start(Rank(rank), Node(node), View(1), absl::InfiniteDuration());
    restarts_.on_start(now_, Rank(rank), Node(node));
  }
  void ends(int rank) {
    restarts_.on_loss(now_, Rank(rank), /*with_node=*/!nodes_.is_up(roles_[Rank(rank)].node));
    roles_.lose(Rank(rank));
  }
  // So often on that node, each time a second after its start.
  void keeps_ending(int rank, int node, int times) {
    for (int i = 0; i < times; ++i) {
      starts(rank, node);
      now_ += absl::Seconds(1);
      for (const Node each : {Node(0), Node(1), Node(2)}) nodes_.hear(each, now_);
      ends(rank);
    }
  }
  double waits(int rank) const {
    return absl::ToDoubleSeconds(restarts_.start_at(Rank(rank)) - now_);
  }

  absl::Duration now_ = absl::Seconds(50);
  RoleTable roles_{4};
  NodeTable nodes_{kDoubt};
  const ControllerOptions options_{.backoff = absl::Seconds(0.5)};
  RoleRestarts restarts_{4, options_};
  StandbyBook standbys_{1};
};

TEST_F(RolePlacement, NeighboursBeginOnOneNodeAndTheSpareIsLeftFree) {
  EXPECT_THAT((std::vector{place(0), place(1), place(2), place(3)}),
              ElementsAre(Node(0), Node(0), Node(1), Node(1)));
}

// A controller that takes over waits for nodes that it has not met.
TEST_F(RolePlacement, ANodeThatWasNeverMetIsNotMetByItsLoss) {
  nodes_.lose(Node(7));
  EXPECT_EQ(nodes_.known(), 3);
  EXPECT_EQ(nodes_.heard(Node(7)), std::nullopt);
  nodes_.lose(Node(0));
  EXPECT_EQ(nodes_.known(), 3) << "lost ones too";
}

// Though the next node has no workers yet: they begin after this one.
TEST_F(RolePlacement, TheSpareTakesThePlaceOfAnUnfitNodeNotTheOneThatIsNext) {
  nodes_.check(Node(0), {"disk: full"});
  const std::optional<Node> first = place(0);
  EXPECT_EQ(first, Node(2));
  starts(0, 2);
  EXPECT_THAT((std::vector{place(1), place(2), place(3)}), ElementsAre(Node(2), Node(1), Node(1)));
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

TEST_F(RolePlacement, WhereAllLeaveItStaysOnOneOfThem) {
  for (const int rank : {0, 1, 2, 3}) starts(rank, rank / 2);
  nodes_.leave(Node(0));
  nodes_.leave(Node(1));
  roles_.lose(Rank(2));
  EXPECT_EQ(place(2), Node(2));
  nodes_.lose(Node(2));
  EXPECT_EQ(place(2), Node(1));
  nodes_.lose(Node(1));
  EXPECT_EQ(place(2), Node(0));
  now_ += kDoubt + absl::Milliseconds(1);
  EXPECT_EQ(place(2), std::nullopt) << "not before it is heard";
  nodes_.join(Node(2), now_);
  EXPECT_EQ(place(2), Node(2));
}

TEST_F(RolePlacement, WhatWasOnOneNodeStaysTogether) {
  nodes_.join(Node(3), now_);
  for (const int rank : {0, 1}) starts(rank, 0);
  for (const int rank : {2, 3}) starts(rank, 1);
  nodes_.lose(Node(1));
  for (const int rank : {2, 3}) roles_.lose(Rank(rank));
  starts(2, 3);
  EXPECT_EQ(place(3), Node(3)) << "though node 2 has no worker at all";
  starts(0, 3);
  EXPECT_EQ(place(3), Node(2)) << "node 3 is full";
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
  EXPECT_EQ(place(0), Node(2)) << "others will begin on node 1";
}

TEST_F(RolePlacement, NobodyMovesToANodeThatIsNotHeard) {
  nodes_.lose(Node(0));
  now_ += 2 * kDoubt;
  nodes_.hear(Node(2), now_);
  EXPECT_EQ(place(0), Node(2));
  EXPECT_THAT(nodes_.usable(now_), ElementsAre(Node(2)));
}

TEST_F(RolePlacement, ARoleThatKeepsEndingMovesToTheSpare) {
  for (const int rank : {0, 1, 2, 3}) starts(rank, rank / 2);
  keeps_ending(2, 1, 1);
  EXPECT_EQ(place(2), Node(1)) << "once may be bad luck";
  keeps_ending(2, 1, 1);
  EXPECT_EQ(
      restarts_.reason(now_, Rank(2)),
      "has ended 2 times in a row soon after its start on node 1; the next start is in 500ms");
  EXPECT_EQ(place(2), Node(2));
  keeps_ending(3, 1, 2);
  EXPECT_EQ(place(3), Node(2)) << "which has room for as many as a node plays at the start";
}

TEST_F(RolePlacement, RolesThatKeepEndingDoNotChangePlaces) {
  for (const int rank : {0, 1}) starts(rank, rank);
  keeps_ending(0, 0, 2);
  keeps_ending(1, 1, 2);
  EXPECT_EQ(place(0), Node(2)) << "nobody has ended there";
  starts(0, 2);
  EXPECT_EQ(place(1), Node(2));
}

TEST_F(RolePlacement, WhereNoNodeHasRoomItSharesOne) {
  for (const int rank : {0, 1, 3}) starts(rank, rank / 2);
  nodes_.lose(Node(2));
  keeps_ending(2, 1, 1);
  EXPECT_EQ(place(2), Node(1));
  keeps_ending(2, 1, 1);
  EXPECT_EQ(place(2), Node(0));
}

TEST_F(RolePlacement, ButNoneWhereAnotherOneKeepsEnding) {
  for (const int rank : {1, 3}) starts(rank, rank / 2);
  nodes_.lose(Node(2));
  keeps_ending(0, 0, 2);
  starts(0, 0);
  keeps_ending(2, 1, 2);
  EXPECT_EQ(place(2), Node(1));
}

// The trouble is its own, and others should not share it.
TEST_F(RolePlacement, NorWhereItKeepsEndingElsewhereToo) {
  for (const int rank : {0, 1, 3}) starts(rank, rank / 2);
  keeps_ending(2, 1, 2);
  keeps_ending(2, 2, 2);
  EXPECT_EQ(place(2), Node(2));
}

TEST_F(RolePlacement, NorDoesItComeBackWhileAnotherNodeIsLeft) {
  for (const int rank : {0, 1, 3}) starts(rank, rank / 2);
  keeps_ending(2, 1, 2);
  starts(2, 2);
  nodes_.lose(Node(2));
  ends(2);
  EXPECT_EQ(place(2), Node(0)) << "of those that are full it is the one where it did not end";
}

TEST_F(RolePlacement, TheNextStartWaitsLongerEachTimeWhereverItIs) {
  std::vector<double> waited;
  for (int i = 0; i < 4; ++i) {
    keeps_ending(2, i < 2 ? 1 : 2, 1);
    waited.push_back(waits(2));
  }
  EXPECT_LT(waited[0], 0);
  EXPECT_THAT((std::vector(waited.begin() + 1, waited.end())), ElementsAre(0.5, 1, 2));
  keeps_ending(2, 2, 10);
  EXPECT_EQ(waits(2), 30);
}

TEST_F(RolePlacement, WhoRanForLongIsNotInTheWrongPlace) {
  keeps_ending(2, 1, 1);
  starts(2, 1);
  now_ += options_.settles_after;
  restarts_.on_progress();
  ends(2);
  EXPECT_EQ(restarts_.early_ends(Rank(2), Node(1)), 0);
  EXPECT_LT(waits(2), 0);
  starts(2, 1);
  now_ += absl::Hours(1);
  ends(2);
  EXPECT_EQ(restarts_.early_ends(Rank(2), Node(1)), 1) << "the job came no further meanwhile";
  restarts_.on_progress();
  starts(2, 1);
  restarts_.on_progress();
  ends(2);
  EXPECT_EQ(restarts_.early_ends(Rank(2), Node(1)), 2) << "the job did, but it was too quick";
}

TEST_F(RolePlacement, TheFirstProcessOfARoleIsJudgedByProgressAlone) {
  starts(2, 1);
  restarts_.on_progress();
  ends(2);
  EXPECT_EQ(restarts_.early_ends(Rank(2), Node(1)), 0);
}

TEST_F(RolePlacement, ALostNodeSaysNothingOfItsRoles) {
  starts(2, 1);
  nodes_.lose(Node(1));
  ends(2);
  EXPECT_EQ(restarts_.early_ends(Rank(2), Node(1)), 0);
  EXPECT_EQ(restarts_.losses(Rank(2)), 1);
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

TEST_F(RolePlacement, ALostProcessIsPlayedWhereAStandbyIsWarm) {
  for (const int rank : {0, 1, 2, 3}) starts(rank, rank / 2);
  roles_.lose(Rank(0));
  EXPECT_EQ(place(0), Node(0));
  standbys_.on_kept({Node(2), /*warming=*/1, /*warm=*/0, ""});
  EXPECT_EQ(place(0), Node(0)) << "it is not warm yet";
  standbys_.on_kept({Node(2), 0, 1, ""});
  EXPECT_EQ(place(0), Node(2));
  EXPECT_EQ(node_for(now_, Rank(0),
                     {.roles = roles_,
                      .nodes = nodes_,
                      .restarts = restarts_,
                      .standbys = standbys_,
                      .nodes_at_start = 2,
                      .may_leave = false}),
            Node(0))
      << "what it goes back to is there";
  standbys_.on_kept({Node(0), 0, 1, ""});
  EXPECT_EQ(place(0), Node(0)) << "its own node has one, too";
}

TEST_F(RolePlacement, OfOtherNodesTheOneWithAStandbyComesFirstIfItHasRoom) {
  nodes_.join(Node(3), now_);
  for (const int rank : {0, 1, 2, 3}) starts(rank, rank / 2);
  standbys_.on_kept({Node(3), 0, 1, ""});
  nodes_.lose(Node(1));
  for (const int rank : {2, 3}) roles_.lose(Rank(rank));
  EXPECT_EQ(place(2), Node(3));
  standbys_.forget(Node(3));
  standbys_.on_kept({Node(0), 0, 1, ""});
  EXPECT_EQ(place(2), Node(2)) << "node 0 is full";
}

}  // namespace
}  // namespace evermoe
