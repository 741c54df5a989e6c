#include "recovery/member/serve/copy_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SlotTime at(int64_t window, int slot) { return {Step(window), slot}; }

// Rank 0's ledger: ranks 1 and 2 keep its copies, and a window of two slots has been captured.
class CopyLedgerTest : public testing::Test {
 protected:
  CopyLedgerTest() {
    ledger_.set_holders({Rank(1), Rank(2)}, table_, {});
    ledger_.begin_window(Step(4), 2);
    ledger_.on_captured(at(4, 0));
    ledger_.on_captured(at(4, 1));
  }
  void acknowledge(int32_t holder, int64_t window) {
    for (const int slot : {0, 1}) ledger_.on_acknowledged(Rank(holder), at(window, slot));
  }

  std::vector<PeerAddress> table_ = {{"zero", View(1)}, {"one", View(1)}, {"two", View(1)}};
  CopyLedger ledger_;
};

TEST_F(CopyLedgerTest, AWindowIsCompleteWhenEveryHolderHasEverySlot) {
  EXPECT_FALSE(ledger_.is_settled());
  acknowledge(1, 4);
  ledger_.on_acknowledged(Rank(2), at(4, 1));
  EXPECT_FALSE(ledger_.is_settled());
  EXPECT_EQ(ledger_.complete_window(), Step(-1));
  ledger_.on_acknowledged(Rank(2), at(4, 0));
  EXPECT_TRUE(ledger_.is_settled());
  EXPECT_EQ(ledger_.complete_window(), Step(4));
}

TEST_F(CopyLedgerTest, AWindowThatIsCapturedInPartIsSettledButNotComplete) {
  acknowledge(1, 4);
  acknowledge(2, 4);
  ledger_.begin_window(Step(6), 2);
  ledger_.on_captured(at(6, 0));
  ledger_.on_acknowledged(Rank(1), at(6, 0));
  ledger_.on_acknowledged(Rank(2), at(6, 0));
  EXPECT_TRUE(ledger_.is_settled());
  EXPECT_EQ(ledger_.complete_window(), Step(4));
}

TEST_F(CopyLedgerTest, MissingIsWhatAHolderHasNotAcknowledgedWithTheSlotUnderWay) {
  acknowledge(1, 4);
  ledger_.on_acknowledged(Rank(2), at(4, 0));
  using Missing = CopyLedger::MissingCopy;
  EXPECT_THAT(ledger_.missing({}), ElementsAre(Missing{Rank(2), at(4, 1)}));
  EXPECT_THAT(ledger_.missing({at(6, 0)}),
              ElementsAre(Missing{Rank(1), at(6, 0)}, Missing{Rank(2), at(4, 1)},
                          Missing{Rank(2), at(6, 0)}));
}

TEST_F(CopyLedgerTest, ASuccessorOfAHolderHasNothing) {
  acknowledge(1, 4);
  acknowledge(2, 4);
  table_[2] = {"two again", View(2)};
  ledger_.set_holders({Rank(1), Rank(2)}, table_, {});
  EXPECT_THAT(ledger_.missing({}), ElementsAre(CopyLedger::MissingCopy{Rank(2), at(4, 0)},
                                               CopyLedger::MissingCopy{Rank(2), at(4, 1)}));
  EXPECT_EQ(ledger_.complete_window(), Step(-1));
}

TEST_F(CopyLedgerTest, AnAdoptedWindowNeedNotBeSentToItsSources) {
  ledger_.clear();
  ledger_.adopt({at(8, 0), at(8, 1)}, 2, {Rank(2)});
  EXPECT_THAT(ledger_.missing({}), ElementsAre(CopyLedger::MissingCopy{Rank(1), at(8, 0)},
                                               CopyLedger::MissingCopy{Rank(1), at(8, 1)}));
}

// They are behind the slots.
TEST_F(CopyLedgerTest, GradientsAreWaitedForButMakeNoWindowComplete) {
  acknowledge(1, 4);
  acknowledge(2, 4);
  ledger_.on_captured(at(4, 2));
  EXPECT_FALSE(ledger_.is_settled());
  EXPECT_EQ(ledger_.complete_window(), Step(4));
  ledger_.adopt({at(6, 2), at(6, 3)}, 2, {Rank(1), Rank(2)});
  EXPECT_EQ(ledger_.complete_window(), Step(4)) << "of the window itself nothing is here";
}

TEST_F(CopyLedgerTest, WhatIsForgottenIsMissedByNobody) {
  ledger_.begin_window(Step(6), 1);
  ledger_.on_captured(at(6, 0));
  ledger_.forget_before(Step(6));
  EXPECT_EQ(ledger_.missing({}).size(), 2u);
  ledger_.clear();
  EXPECT_THAT(ledger_.missing({}), IsEmpty());
  EXPECT_THAT(ledger_.holders(), ElementsAre(Rank(1), Rank(2)));
}

TEST_F(CopyLedgerTest, AWindowThatIsCutOffIsMissedByNobody) {
  acknowledge(1, 4);
  acknowledge(2, 4);
  ledger_.begin_window(Step(6), 3);
  ledger_.on_captured(at(6, 0));
  ASSERT_FALSE(ledger_.is_settled());
  ledger_.forget_between(Step(4), Step(8));
  EXPECT_TRUE(ledger_.is_settled());
  EXPECT_EQ(ledger_.complete_window(), Step(4));
}

TEST_F(CopyLedgerTest, FormerHoldersAreReleasedOnceWhenTheHoldersHaveEverything) {
  acknowledge(1, 4);
  acknowledge(2, 4);
  EXPECT_THAT(ledger_.release(), IsEmpty());
  ledger_.set_holders({Rank(2)}, table_, {Rank(5), Rank(2)});
  ledger_.on_captured(at(4, 2));
  ledger_.forget_before(Step(4));
  EXPECT_THAT(ledger_.release(), IsEmpty()) << "not everything since has arrived";
  ledger_.on_acknowledged(Rank(2), at(4, 2));
  EXPECT_THAT(ledger_.release(), ElementsAre(Rank(1), Rank(5)));
  EXPECT_THAT(ledger_.release(), IsEmpty());
}

// Of a process that was just started nobody may forget anything.
TEST_F(CopyLedgerTest, SourcesAreNotReleasedBeforeThereIsAWindow) {
  ledger_.clear();
  ledger_.set_holders({Rank(2)}, table_, {Rank(5)});
  EXPECT_TRUE(ledger_.is_settled());
  EXPECT_THAT(ledger_.release(), IsEmpty());
  ledger_.adopt({at(4, 0)}, 1, {Rank(5)});
  EXPECT_THAT(ledger_.release(), IsEmpty());
  ledger_.on_acknowledged(Rank(2), at(4, 0));
  EXPECT_THAT(ledger_.release(), IsEmpty()) << "nobody has said that all have it";
  ledger_.forget_before(Step(4));
  EXPECT_THAT(ledger_.release(), ElementsAre(Rank(1), Rank(5)));
}

TEST_F(CopyLedgerTest, WhoWasGivenANewerStateReleasesNobodyBeforeAllHaveIt) {
  ledger_.clear();
  ledger_.set_holders({Rank(2)}, table_, {Rank(5)});
  ledger_.adopt({at(6, 0)}, 1, {Rank(5)});
  ledger_.on_acknowledged(Rank(2), at(6, 0));
  ledger_.forget_before(Step(4));
  EXPECT_EQ(ledger_.complete_window(), Step(6));
  EXPECT_THAT(ledger_.release(), IsEmpty()) << "rank 5 alone has the window of step 4";
  ledger_.forget_before(Step(6));
  EXPECT_THAT(ledger_.release(), ElementsAre(Rank(1), Rank(5)));
}

TEST_F(CopyLedgerTest, NobodyWaitsForASlotThatIsGivenUp) {
  acknowledge(1, 4);
  ledger_.on_acknowledged(Rank(2), at(4, 0));
  EXPECT_FALSE(ledger_.is_settled());
  ledger_.give_up(at(4, 1));
  EXPECT_TRUE(ledger_.is_settled());
  EXPECT_EQ(ledger_.complete_window(), Step(-1)) << "it is lacking at a holder";
}

}  // namespace
}  // namespace evermoe
