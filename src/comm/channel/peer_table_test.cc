// What a new table changes, seen by rank 1 of 3, which plays since view 2.
#include "comm/channel/peer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PeerTableTest : public testing::Test {
 protected:
  // Who plays ranks 0 and 2; nobody: "".
  PeerChanges update(const std::string& of_0, const std::string& of_2) {
    return table_.update({{of_0, View(1)}, {"b", View(2)}, {of_2, View(3)}});
  }
  template <typename Value>
  static std::vector<int> ranks(const std::map<Rank, Value>& changes) {
    std::vector<int> ranks;
    for (const auto& change : changes) ranks.push_back(change.first.value);
    return ranks;
  }

  PeerTable table_{Rank(1), 3, View(2), "b"};
};

TEST_F(PeerTableTest, BothEndsKnowWhoOfThemIsOlder) {
  const PeerChanges changes = update("a", "c");
  EXPECT_THAT(ranks(changes.dropped), IsEmpty());
  ASSERT_THAT(ranks(changes.named), ElementsAre(0, 2));
  EXPECT_EQ(changes.named.at(Rank(0)), (NamedProcess{"a", View(2), /*is_older=*/true}));
  EXPECT_EQ(changes.named.at(Rank(2)), (NamedProcess{"c", View(3), /*is_older=*/false}));
}

TEST_F(PeerTableTest, WhatIsAsBeforeChangesNothing) {
  update("a", "");
  const PeerChanges changes = update("a", "");
  EXPECT_THAT(ranks(changes.dropped), IsEmpty()) << "half of the seats of a job have nobody";
  EXPECT_THAT(ranks(changes.named), IsEmpty());
}

TEST_F(PeerTableTest, AnotherProcessTakesThePlaceOfADroppedOne) {
  update("a", "c");
  const PeerChanges changes = update("a", "d");
  EXPECT_THAT(ranks(changes.dropped), ElementsAre(2));
  EXPECT_THAT(ranks(changes.named), ElementsAre(2));
}

TEST_F(PeerTableTest, ARankThatNobodyPlaysIsDroppedOnce) {
  EXPECT_THAT(ranks(update("a", "").dropped), ElementsAre(2)) << "nor is anybody to be awaited";
  EXPECT_THAT(ranks(update("a", "c").named), ElementsAre(2));
  const PeerChanges changes = update("a", "");
  EXPECT_THAT(ranks(changes.dropped), ElementsAre(2));
  EXPECT_THAT(ranks(changes.named), IsEmpty());
  EXPECT_THAT(ranks(update("a", "c").named), ElementsAre(2)) << "though it is the same as before";
}

}  // namespace
}  // namespace evermoe
