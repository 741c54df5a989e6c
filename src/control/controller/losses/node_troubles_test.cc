// Who is at fault where nodes do not reach each other. Rank r plays on node r, unless it has moved.
#include "control/controller/losses/node_troubles.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

class Troubles : public testing::Test {
 protected:
  static NodeTroubles::Process on(int rank, int node, View since = View(1)) {
    return {Rank(rank), since, Node(node)};
  }
  void complains(int accuser, int accused) {
    troubles_.complain(now_, on(accuser, accuser), on(accused, accused));
  }
  std::optional<Node> at_fault() const {
    return troubles_.at_fault([this](Node node) -> std::optional<absl::Duration> {
      return is_dead_.contains(node) ? absl::ZeroDuration() : now_ + absl::Seconds(1);
    });
  }

  NodeTroubles troubles_;
  std::set<Node> is_dead_;
  absl::Duration now_ = absl::Seconds(100);
};

// What workers told in a simulated job when the network of node 1 was out, but for its agent.
TEST_F(Troubles, TheNodeThatAllHaveTroubleWithIsAtFault) {
  complains(3, 1);
  EXPECT_EQ(at_fault(), std::nullopt) << "either of the two";
  complains(1, 3);
  EXPECT_EQ(at_fault(), std::nullopt) << "both say so";
  complains(0, 1);
  EXPECT_EQ(at_fault(), Node(1));
  complains(2, 1);
  EXPECT_EQ(at_fault(), Node(1));
  EXPECT_EQ(troubles_.partners(Node(1)), "nodes 0, 2 and 3");
}

TEST_F(Troubles, ItsOwnWordCountsIfThoseItDoesNotReachAreThere) {
  complains(1, 0);
  complains(1, 3);
  EXPECT_EQ(at_fault(), Node(1));
  is_dead_ = {Node(0)};
  EXPECT_EQ(at_fault(), std::nullopt);
}

TEST_F(Troubles, WhoMissesTwoThatAreGoneIsNotAtFault) {
  is_dead_ = {Node(1), Node(3)};
  complains(0, 1);
  complains(0, 3);
  EXPECT_EQ(at_fault(), std::nullopt);
  complains(2, 1);
  complains(2, 3);
  EXPECT_EQ(at_fault(), std::nullopt);
}

TEST_F(Troubles, APairThatIsCutFromEachOtherIsNotTold) {
  for (int again = 0; again < 3; ++again) {
    complains(0, 2);
    complains(2, 0);
  }
  EXPECT_EQ(at_fault(), std::nullopt);
}

TEST_F(Troubles, TwoPairsOfFourAreNotTold) {
  complains(0, 2);
  complains(2, 1);
  complains(1, 3);
  EXPECT_EQ(at_fault(), std::nullopt) << "nodes 1 and 2 alike";
}

TEST_F(Troubles, TheNodeCountsAndNotWhoPlaysThere) {
  troubles_.complain(now_, on(4, 0), on(2, 1));
  troubles_.complain(now_, on(5, 0), on(3, 1));
  troubles_.complain(now_, on(2, 1), on(3, 1));
  EXPECT_EQ(at_fault(), std::nullopt) << "nodes 0 and 1";
  // The role has moved there, and has the same trouble.
  troubles_.complain(now_, on(4, 7, View(2)), on(2, 1));
  EXPECT_EQ(at_fault(), Node(1));
}

TEST_F(Troubles, WhatASuccessorSaysAddsToWhatWasSaidOfTheFormerProcess) {
  complains(3, 1);
  troubles_.complain(now_, on(1, 1, View(2)), on(0, 0));
  EXPECT_EQ(at_fault(), Node(1));
}

TEST_F(Troubles, OfAProcessThatEndedByItselfNothingIsKept) {
  complains(0, 1);
  complains(0, 3);
  troubles_.forget(Rank(1), View(2));
  EXPECT_EQ(at_fault(), Node(0)) << "that is another process";
  troubles_.forget(Rank(1), View(1));
  EXPECT_EQ(at_fault(), std::nullopt);
  EXPECT_EQ(troubles_.partners(Node(0)), "node 3");
}

TEST_F(Troubles, ACommitEndsThem) {
  complains(0, 1);
  complains(3, 1);
  troubles_.clear();
  EXPECT_EQ(at_fault(), std::nullopt);
}

}  // namespace
}  // namespace evermoe
