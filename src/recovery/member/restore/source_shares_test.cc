#include "recovery/member/restore/source_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Share = SourceShares::Share;

constexpr SlotTime kSlot{Step(4), 0};
constexpr SlotTime kOther{Step(4), 1};

TEST(SourceSharesTest, EveryChunkIsAskedOfOneSource) {
  const SourceShares shares({Rank(1), Rank(5), Rank(2)});
  const auto all = shares.shares_of(kSlot);
  ASSERT_EQ(all.size(), 3u);
  for (int32_t chunk = 0; chunk < 10; ++chunk) {
    EXPECT_EQ(
        std::ranges::count_if(all, [&](const Share& one) { return one.chunks.contains(chunk); }), 1)
        << chunk;
  }
}

TEST(SourceSharesTest, OthersSendTheShareOfOneThatRefuses) {
  SourceShares shares({Rank(1), Rank(5)});
  EXPECT_TRUE(shares.refuse(Rank(1), kSlot));
  EXPECT_FALSE(shares.refuse(Rank(1), kSlot)) << "it was asked twice";
  EXPECT_THAT(shares.shares_of(kSlot), ElementsAre(Share{Rank(5), {0, 1}}));
  EXPECT_THAT(shares.shares_of(kOther),
              ElementsAre(Share{Rank(1), {0, 2}}, Share{Rank(5), {1, 2}}));
  EXPECT_THAT(shares.sound(), ElementsAre(Rank(5)));
  EXPECT_TRUE(shares.refuse(Rank(5), kSlot));
  EXPECT_THAT(shares.shares_of(kSlot), IsEmpty());
}

// One of them never answers: what it is asked for is another one's in the next turn.
TEST(SourceSharesTest, SharesGoRound) {
  SourceShares shares({Rank(1), Rank(5), Rank(2)});
  const auto share_of = [&](size_t i) { return shares.shares_of(kSlot)[i].chunks.remainder; };
  const int32_t silent = share_of(0);
  shares.rotate();
  EXPECT_NE(share_of(0), silent);
  EXPECT_TRUE(share_of(1) == silent || share_of(2) == silent);
  shares.rotate();
  shares.rotate();
  EXPECT_EQ(share_of(0), silent);
}

}  // namespace
}  // namespace evermoe
