#include "parallel/membership.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Roles 0.0 0.1 0.2 are ranks 0 1 2; 1.0 1.1 1.2 are ranks 3 4 5.
const Topology& six() {
  static const Topology topology({3, 3}, 4);
  return topology;
}

TEST(Membership, EverybodyTrainsAtFirst) {
  const Membership all(six());
  EXPECT_EQ(all.lanes().to_string(), six().to_string());
  for (int32_t r = 0; r < 6; ++r) {
    EXPECT_FALSE(all.rests(Rank(r)));
    EXPECT_EQ(all.place_of(Rank(r)), six().role_of(Rank(r)));
  }
}

TEST(Membership, ThoseThatTrainCountThemselvesAnew) {
  const Membership some(six(), {Rank(1), Rank(5)});
  EXPECT_EQ(some.lanes().to_string(), "2 stages, lanes 2 2");
  EXPECT_TRUE(some.rests(Rank(1)));
  EXPECT_EQ(some.place_of(Rank(1)), std::nullopt);
  EXPECT_EQ(some.place_of(Rank(2)), (Role{0, 1}));
  EXPECT_EQ(some.rank_at({0, 1}), Rank(2));
  EXPECT_EQ(some.place_of(Rank(4)), (Role{1, 1}));
  EXPECT_THAT(some.stage_group(0), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(some.stage_group(1), ElementsAre(Rank(3), Rank(4)));
  EXPECT_EQ(some.lanes().first_layer(1), six().first_layer(1));
}

TEST(Membership, OneThatCannotBeIsABug) {
  EXPECT_THAT(problem_with({Rank(3)}, six()), HasSubstr("1.0 cannot rest"));
  EXPECT_THAT(problem_with({Rank(6)}, six()), HasSubstr("6 of 6"));
  EXPECT_THAT(problem_with({Rank(2), Rank(1)}, six()), HasSubstr("order"));
  EXPECT_THAT(problem_with({Rank(1), Rank(2), Rank(4)}, six()), IsEmpty());
  EXPECT_DEATH(Membership(six(), {Rank(0)}), "0.0 cannot rest");
}

TEST(Membership, TheLastLanesRestOfAGivenNumber) {
  const int lanes[] = {1, 2};
  EXPECT_THAT(last_lanes_resting(six(), lanes), ElementsAre(Rank(1), Rank(2), Rank(5)));
}

class MembershipHistoryTest : public ::testing::Test {
 protected:
  const MembershipHistory history_ = {
      {Step(4), {Rank(2)}}, {Step(7), {Rank(2)}}, {Step(9), {}}, {Step(10), {Rank(1), Rank(2)}}};
};

TEST_F(MembershipHistoryTest, AChangeHoldsFromItsStateOn) {
  EXPECT_THAT(resting_at(history_, Step(3)), IsEmpty());
  EXPECT_THAT(resting_at(history_, Step(4)), ElementsAre(Rank(2)));
  EXPECT_THAT(resting_at(history_, Step(8)), ElementsAre(Rank(2)));
  EXPECT_THAT(resting_at(history_, Step(9)), IsEmpty());
  EXPECT_THAT(resting_at(history_, Step(1000)), ElementsAre(Rank(1), Rank(2)));
}

TEST_F(MembershipHistoryTest, WhatChangesNothingIsNoChange) {
  EXPECT_TRUE(changes_at(history_, Step(4)));
  EXPECT_FALSE(changes_at(history_, Step(5)));
  EXPECT_FALSE(changes_at(history_, Step(7)));
  EXPECT_TRUE(changes_between(history_, Step(3), Step(4)));
  EXPECT_FALSE(changes_between(history_, Step(4), Step(8)));
  EXPECT_TRUE(changes_between(history_, Step(8), Step(12)));
}

TEST_F(MembershipHistoryTest, WhatNobodyGoesBackToIsForgotten) {
  EXPECT_EQ(since(history_, Step(3)).size(), 4u);
  EXPECT_EQ(since(history_, Step(4)).size(), 4u);
  EXPECT_EQ(since(history_, Step(8)).front().step, Step(7));
  EXPECT_EQ(since(history_, Step(50)).size(), 1u);
  EXPECT_EQ(resting_at(since(history_, Step(8)), Step(8)), resting_at(history_, Step(8)));
  EXPECT_THAT(resting_at(since(history_, Step(50)), Step(0)), IsEmpty());
}

TEST_F(MembershipHistoryTest, WhoRestedAtTheBeginningIsNotForgotten) {
  MembershipHistory longer = history_;
  longer.insert(longer.begin(), {.step = Step(0), .resting = {Rank(1)}});
  EXPECT_EQ(since(longer, Step(0)).size(), 5u);
  EXPECT_EQ(since(longer, Step(5)).size(), 5u);
  EXPECT_EQ(since(longer, Step(50)).size(), 2u);
  for (const Step step : {Step(0), Step(3)})
    EXPECT_THAT(resting_at(since(longer, Step(50)), step), ElementsAre(Rank(1)));
  EXPECT_EQ(resting_at(since(longer, Step(50)), Step(50)), resting_at(longer, Step(50)));
}

TEST(Membership, AStageTakesTheLargestWidthThatItCan) {
  const std::vector<int> widths = {2, 4, 8};
  EXPECT_EQ(width_of(widths, 1), 1) << "none is so small";
  EXPECT_EQ(width_of(widths, 2), 2);
  EXPECT_EQ(width_of(widths, 7), 4);
  EXPECT_EQ(width_of(widths, 9), 8);
  EXPECT_EQ(width_of({}, 7), 7);
}

}  // namespace
}  // namespace evermoe
