#include "recovery/plan/former_holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of a job with one rank.
class FormerHoldersTest : public testing::Test {
 protected:
  void chosen(int64_t complete, int holder) {
    holders_.on_chosen(Step(complete), {{Rank(holder)}});
  }
  auto of(int64_t window) const { return holders_.of(Step(window)); }

  FormerHolders holders_;
};

TEST_F(FormerHoldersTest, NobodyWasBeforeTheFirstPlan) { EXPECT_THAT(of(8), IsEmpty()); }

TEST_F(FormerHoldersTest, WhoIsChosenGetsTheWindowsAfterwards) {
  chosen(-1, 1);
  EXPECT_THAT(of(0), ElementsAre(ElementsAre(Rank(1))));
  chosen(8, 2);
  EXPECT_THAT(of(8), ElementsAre(ElementsAre(Rank(1))));
  EXPECT_THAT(of(16), ElementsAre(ElementsAre(Rank(2))));
}

TEST_F(FormerHoldersTest, WhoIsChosenAgainAtTheSameWindowHasNoneOfIt) {
  chosen(-1, 1);
  chosen(8, 2);
  chosen(8, 3);
  EXPECT_THAT(of(8), ElementsAre(ElementsAre(Rank(1))));
  EXPECT_THAT(of(16), ElementsAre(ElementsAre(Rank(3))));
}

TEST_F(FormerHoldersTest, WhereAllWentBackNobodyHasWhatCameAfter) {
  chosen(-1, 1);
  chosen(8, 2);
  chosen(24, 3);
  chosen(-1, 4);
  EXPECT_THAT(of(8), ElementsAre(ElementsAre(Rank(4))));
}

}  // namespace
}  // namespace evermoe
