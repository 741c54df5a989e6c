#include "control/controller/membership/membership_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MembershipBookTest : public testing::Test {
 protected:
  static Plan begins(MembershipHistory history = {}) {
    Plan plan;
    plan.restart_all = true;
    plan.membership = std::move(history);
    return plan;
  }
  static Plan goes_on(int64_t state, MembershipHistory history) {
    Plan plan;
    plan.base = Step(5);
    plan.state = Step(state);
    plan.membership = std::move(history);
    return plan;
  }
  const Topology topology_{{3, 3}, 2};
  MembershipBook book_{topology_};
};

TEST_F(MembershipBookTest, HowTheJobBeginsIsTold) {
  const auto told = book_.on_plan(begins()).changes;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, Step(-1));
  EXPECT_EQ(told[0].cause, "the job begins");
}

TEST_F(MembershipBookTest, AChangeIsToldOnceItHoldsForGood) {
  (void)book_.on_plan(begins());
  book_.on_news("node 2 is lost");
  EXPECT_EQ(book_.cause(), "node 2 is lost");
  EXPECT_THAT(book_.on_plan(goes_on(7, {{Step(8), {Rank(2)}, 5, book_.cause()}})).changes,
              IsEmpty());
  EXPECT_FALSE(book_.is_settled());
  EXPECT_THAT(book_.resting(), ElementsAre(Rank(2)));
  EXPECT_THAT(book_.on_commit(Step(7)), IsEmpty());
  const auto told = book_.on_commit(Step(8));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].cause, "node 2 is lost");
  EXPECT_TRUE(book_.is_settled());
  EXPECT_EQ(book_.newest_change(), Step(8));
  EXPECT_EQ(book_.cause(), "");
  EXPECT_THAT(book_.on_commit(Step(9)), IsEmpty());
}

// The step is committed, and who could have said so was lost or could not be heard.
TEST_F(MembershipBookTest, AChangeWhoseStateMembersHaveReachedIsToldWithTheNextPlan) {
  (void)book_.on_plan(begins());
  book_.on_news("node 2 is lost");
  const MembershipChange change{Step(8), {Rank(2)}, 5, book_.cause()};
  (void)book_.on_plan(goes_on(7, {change}));
  const auto told = book_.on_plan(goes_on(8, {change})).changes;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].cause, "node 2 is lost");
  EXPECT_EQ(book_.cause(), "");
  EXPECT_THAT(book_.on_commit(Step(9)), IsEmpty());
  EXPECT_THAT(book_.on_plan(goes_on(9, {change})).changes, IsEmpty());
}

TEST_F(MembershipBookTest, APlanMayTakeThePlaceOfOneThatNobodyHasComeTo) {
  (void)book_.on_plan(begins());
  (void)book_.on_plan(goes_on(7, {{Step(8), {Rank(2)}}}));
  (void)book_.on_plan(goes_on(7, {{Step(8), {Rank(2), Rank(4)}}}));
  const auto told = book_.on_commit(Step(8));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0].resting, ElementsAre(Rank(2), Rank(4)));
}

TEST_F(MembershipBookTest, WhoTakesOverTellsWhatHolds) {
  const MembershipBook::News news =
      book_.on_plan(goes_on(20, {{Step(0), {Rank(4)}}, {Step(8), {Rank(2)}}, {Step(21), {}}}));
  ASSERT_TRUE(news.base.has_value());
  EXPECT_EQ(news.base->step, Step(5));
  EXPECT_THAT(news.base->resting, ElementsAre(Rank(4)));
  const std::vector<MembershipChange>& told = news.changes;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, Step(8));
  EXPECT_THAT(book_.resting(), IsEmpty());
}

TEST_F(MembershipBookTest, WhoGoesBackToACheckpointTrainsFromThere) {
  (void)book_.on_plan(begins());
  (void)book_.on_plan(goes_on(7, {{Step(8), {Rank(2)}}}));
  (void)book_.on_commit(Step(8));
  const auto told = book_.on_plan(begins({{Step(0), {Rank(4)}, 5, "node 3 is lost"}})).changes;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, Step(-1));
  EXPECT_EQ(told[0].cause, "node 3 is lost");
}

TEST_F(MembershipBookTest, AScriptHoldsFromWhereverAllGoOn) {
  const MembershipHistory script = {{Step(8), {Rank(2)}}, {Step(20), {}}};
  EXPECT_EQ(book_.on_plan(begins(script)).changes.size(), 1u);
  EXPECT_EQ(book_.on_commit(Step(12)).size(), 1u);
  EXPECT_THAT(book_.on_plan(begins(script)).changes, IsEmpty());
  const auto again = book_.on_commit(Step(11));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].step, Step(8));
}

// The checkpoint may be older than their rest.
TEST_F(MembershipBookTest, AlsoWhereTheSameRolesRest) {
  (void)book_.on_plan(begins());
  (void)book_.on_plan(goes_on(7, {{Step(8), {Rank(2)}, 5, "node 3 is lost"}}));
  (void)book_.on_commit(Step(8));
  const auto told = book_.on_plan(begins({{Step(0), {Rank(2)}, 5, "node 3 is lost"}})).changes;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0].resting, ElementsAre(Rank(2)));
}

}  // namespace
}  // namespace evermoe
