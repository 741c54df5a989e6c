// How much may wait to be taken.
#include "comm/channel/service_inbox.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kOfOne = Transport::kServiceBytesMax;
constexpr size_t kOfAll = Transport::kServiceBytesOfAllMax;

class ServiceInboxTest : public testing::Test {
 protected:
  // Comes in one piece.
  void comes(int from, size_t size) {
    inbox_.put(inbox_.expect(Rank(from), Tag{View(1), kServiceGroup, 0}, size));
  }
  bool has_room(int from, size_t size) const { return inbox_.has_room(Rank(from), size); }

  ServiceInbox inbox_{8};
};

TEST_F(ServiceInboxTest, ASenderMayHaveSoMuchWaiting) {
  comes(1, kOfOne - kMiB);
  EXPECT_TRUE(has_room(1, kMiB));
  EXPECT_FALSE(has_room(1, kMiB + 1));
  EXPECT_TRUE(has_room(2, kOfOne)) << "the others are not held by it";
}

TEST_F(ServiceInboxTest, SoMayAllTogether) {
  for (int from = 1; from <= 4; ++from) comes(from, kOfAll / 4 - kMiB);
  EXPECT_TRUE(has_room(1, 4 * kMiB));
  EXPECT_FALSE(has_room(1, 4 * kMiB + 1)) << "though it has less than its share here";
  EXPECT_EQ(inbox_.take()->from, Rank(1));
  EXPECT_TRUE(has_room(2, 4 * kMiB + 1));
}

TEST_F(ServiceInboxTest, OneOfAnySizeMayComeOfWhoHasNoneHere) {
  comes(1, 2 * kOfAll);
  EXPECT_FALSE(has_room(1, 1));
  EXPECT_TRUE(has_room(2, 2 * kOfAll)) << "else it might wait for ever";
  comes(2, 1);
  EXPECT_FALSE(has_room(2, 1));
}

// Whoever is held has a message in here, with whose taking it is looked at again.
TEST_F(ServiceInboxTest, WhoIsHeldHasRoomAtLastWhenItsOwnAreTaken) {
  comes(1, kOfOne);
  comes(2, 1);
  comes(3, kOfOne);
  EXPECT_FALSE(has_room(2, 1));
  EXPECT_EQ(inbox_.take()->from, Rank(1));
  comes(4, kOfOne);
  EXPECT_FALSE(has_room(2, 1)) << "another one was first";
  EXPECT_EQ(inbox_.take()->from, Rank(2));
  EXPECT_TRUE(has_room(2, kOfOne));
}

TEST_F(ServiceInboxTest, WhatIsAbandonedOrTakenDoesNotCount) {
  const ServiceMessage coming = inbox_.expect(Rank(1), Tag{View(1), kServiceGroup, 0}, 2 * kOfAll);
  EXPECT_EQ(inbox_.bytes(), 2 * kOfAll) << "it counts from the moment that its memory is taken";
  inbox_.abandon(coming);
  comes(2, kMiB);
  EXPECT_EQ(inbox_.bytes(), kMiB);
  EXPECT_TRUE(has_room(2, kOfOne - kMiB));
  EXPECT_TRUE(inbox_.take().has_value());
  EXPECT_EQ(inbox_.bytes(), 0u);
  EXPECT_FALSE(inbox_.take().has_value());
}

}  // namespace
}  // namespace evermoe
