#include "control/controller/membership/membership_decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Node> nodes(const std::vector<int>& numbers) {
  std::vector<Node> nodes;
  for (const int number : numbers) nodes.emplace_back(number);
  return nodes;
}

// Roles 0.0 0.1 0.2 are ranks 0 1 2; 1.0 1.1 1.2 are ranks 3 4 5.
class MembershipDecisionTest : public testing::Test {
 protected:
  RestingRoles resting(const std::vector<int>& node_of, const RestingRoles& now = {},
                       int share = 1) const {
    return decide_resting(topology_, nodes(node_of), now, share);
  }
  std::vector<RoleMove> wakes(const std::vector<int>& node_of, const RestingRoles& now,
                              const std::vector<int>& usable, int share = 1) const {
    return decide_wakes(topology_, nodes(node_of), now, nodes(usable), share);
  }
  const Topology topology_{{3, 3}, 2};
};

TEST_F(MembershipDecisionTest, WhereEveryNodeHasItsShareNobodyRests) {
  EXPECT_THAT(resting({0, 1, 2, 3, 4, 5}), IsEmpty());
  EXPECT_THAT(resting({0, 0, 1, 1, 2, 2}, {}, 2), IsEmpty());
}

TEST_F(MembershipDecisionTest, OfANodeWithTwoRolesOneRests) {
  EXPECT_THAT(resting({0, 0, 2, 3, 4, 5}), ElementsAre(Rank(1))) << "0.0 never rests";
  EXPECT_THAT(resting({0, 4, 2, 3, 4, 5}), ElementsAre(Rank(4))) << "any of the two";
}

TEST_F(MembershipDecisionTest, WhoRestsGoesOnResting) {
  EXPECT_THAT(resting({0, 4, 2, 3, 4, 5}, {Rank(1)}), ElementsAre(Rank(1)));
}

TEST_F(MembershipDecisionTest, StagesStayAsEvenAsTheyCanBe) {
  // 0.1 plays beside 1.1, 0.2 beside 1.2: one of each stage rests.
  const RestingRoles both = resting({0, 4, 5, 3, 4, 5});
  EXPECT_EQ(Membership(topology_, both).lanes().to_string(), "2 stages, lanes 2 2");
  // Three nodes are left.
  const RestingRoles three = resting({0, 4, 0, 3, 4, 3});
  EXPECT_EQ(Membership(topology_, three).lanes().world_size(), 3);
}

TEST_F(MembershipDecisionTest, FirstLanesTrainWhateverTheyPlayOn) {
  EXPECT_THAT(resting({0, 0, 0, 0, 0, 0}), ElementsAre(Rank(1), Rank(2), Rank(4), Rank(5)));
}

TEST_F(MembershipDecisionTest, AStageMayTrainWithSomeNumbersOfLanesOnly) {
  const auto with = [&](const std::vector<int>& widths, const std::vector<int>& node_of,
                        const RestingRoles& now = {}) {
    const RestingRoles roles = decide_resting(topology_, nodes(node_of), now, 1, widths);
    return Membership(topology_, roles).lanes().to_string();
  };
  const std::vector<int> all = {0, 1, 2, 3, 4, 5}, one_less = {0, 0, 2, 3, 4, 5};
  EXPECT_EQ(with({1, 3}, all), "2 stages, lanes 3 3");
  EXPECT_EQ(with({1, 3}, one_less), "2 stages, lanes 1 3");
  EXPECT_EQ(with({2}, all), "2 stages, lanes 2 2");
  EXPECT_EQ(with({3}, one_less), "2 stages, lanes 2 3") << "none is so small: all that are left";
  const std::vector<int> two = {2};
  const RestingRoles keeps = decide_resting(topology_, nodes(all), {Rank(1), Rank(4)}, 1, two);
  EXPECT_THAT(keeps, ElementsAre(Rank(1), Rank(4))) << "who rests goes on resting";
}

TEST_F(MembershipDecisionTest, ANodeWithRoomGetsARoleOfTheNarrowestStage) {
  const RestingRoles now = {Rank(1), Rank(2), Rank(5)};
  EXPECT_THAT(wakes({0, 0, 3, 3, 4, 4}, now, {0, 3, 4}), IsEmpty());
  EXPECT_THAT(wakes({0, 0, 3, 3, 4, 4}, now, {0, 3, 4, 7}),
              ElementsAre(RoleMove{Rank(1), Node(7)}));
  EXPECT_THAT(wakes({0, 0, 3, 3, 4, 4}, now, {7, 8, 9, 10}),
              ElementsAre(RoleMove{Rank(1), Node(7)}, RoleMove{Rank(2), Node(8)},
                          RoleMove{Rank(5), Node(9)}));
}

TEST_F(MembershipDecisionTest, ANodeTakesNoMoreThanItsShare) {
  const RestingRoles now = {Rank(4), Rank(5)};
  EXPECT_THAT(wakes({0, 0, 1, 1, 0, 1}, now, {0, 1, 2}, 2),
              ElementsAre(RoleMove{Rank(4), Node(2)}, RoleMove{Rank(5), Node(2)}));
}

TEST_F(MembershipDecisionTest, ALostRoleGoesWhereOneMayRest) {
  const auto share = [&](int rank, const std::vector<int>& node_of, const RestingRoles& now,
                         const std::vector<int>& candidates) {
    return node_to_share(topology_, Rank(rank), nodes(node_of), now, nodes(candidates));
  };
  EXPECT_EQ(share(3, {0, 1, 2, 3, 4, 5}, {}, {0, 1, 2, 4, 5}), Node(1))
      << "beside 0.0 nobody could";
  EXPECT_EQ(share(1, {0, 1, 2, 3, 4, 5}, {}, {0, 2, 3, 4, 5}), Node(0)) << "it rests itself";
  EXPECT_EQ(share(2, {0, 1, 2, 3, 4, 5}, {Rank(1)}, {0, 3, 4}), Node(4)) << "of the wider stage";
  EXPECT_EQ(share(2, {0, 1, 2, 3, 4, 5}, {}, {}), std::nullopt);
}

}  // namespace
}  // namespace evermoe
