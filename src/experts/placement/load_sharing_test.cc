#include "experts/placement/load_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;

using Loads = std::vector<int64_t>;

LoadSharing evened(const Loads& loads, const ExpertsOfNodes& experts_of) {
  LoadSharing sharing(loads, experts_of);
  sharing.even_out();
  return sharing;
}

std::vector<int64_t> parts(const LoadSharing& sharing, int expert) {
  std::vector<int64_t> parts;
  for (const LoadSharing::Replica& replica : sharing.replicas_of(expert))
    parts.push_back(replica.part);
  return parts;
}

TEST(LoadSharingTest, ABusyLaneLeavesMoreToTheOther) {
  // Expert 0 on both lanes; lane 0 has expert 1 besides.
  const Loads loads = {8, 4};
  const ExpertsOfNodes experts_of = {{0, 1}, {0}};
  EXPECT_DOUBLE_EQ(LoadSharing(loads, experts_of).slowdown(), 8.0 / 6);
  const LoadSharing sharing = evened(loads, experts_of);
  EXPECT_DOUBLE_EQ(sharing.slowdown(), 1);
  EXPECT_THAT(parts(sharing, 0), ElementsAre(2, 6));
  EXPECT_THAT(parts(sharing, 1), ElementsAre(4));
}

TEST(LoadSharingTest, AReplicaMayServeNothing) {
  const LoadSharing sharing = evened({2, 4, 2}, {{0, 1}, {0, 2}});
  EXPECT_DOUBLE_EQ(sharing.slowdown(), 1);
  EXPECT_THAT(parts(sharing, 0), ElementsAre(0, 2));
}

// Lanes 0 and 2 share no expert: what goes from the one to the other goes by lane 1.
TEST(LoadSharingTest, PartsAreShiftedOnFromLaneToLane) {
  EXPECT_NEAR(evened({600, 600, 600}, {{0, 2}, {0, 1}, {1}}).slowdown(), 1, 0.005);
}

TEST(LoadSharingTest, WhatCannotBeSharedStays) {
  EXPECT_DOUBLE_EQ(evened({7, 3}, {{0}, {1}}).slowdown(), 1.4);
  EXPECT_DOUBLE_EQ(evened({0, 0}, {{0, 1}, {0}}).slowdown(), 1);
}

// Lanes 0 and 1 hold expert 0, lane 2 expert 1.
TEST(LoadSharingTest, LanesServeTheirOwnTokensAndTheLeastLoadedThoseOfOthers) {
  const ExpertPlacement placement({{0, 1}, {2}}, 3);
  const std::vector<int64_t> tokens = {4, 0, 2, 0, 4, 5};
  const LoadSharing sharing(tokens, placement);
  EXPECT_THAT(parts(sharing, 0), ElementsAre(5, 5)) << "1 and 3 of lane 2's";
  EXPECT_THAT(parts(sharing, 1), ElementsAre(5));
}

TEST(LoadSharingTest, OnlyWhatIsAboveTheMeanLeavesItsLane) {
  const ExpertPlacement placement({{0, 1}, {0, 1}}, 2);
  const std::vector<int64_t> tokens = {90, 30, 20, 60};
  LoadSharing sharing(tokens, placement);
  sharing.even_out();
  EXPECT_THAT(parts(sharing, 0), ElementsAre(70, 40));
  EXPECT_THAT(parts(sharing, 1), ElementsAre(30, 60));
}

// Of all sets of experts, the one whose lanes are too few most.
double least_slowdown(const Loads& loads, const ExpertsOfNodes& experts_of) {
  const int64_t sum = std::accumulate(loads.begin(), loads.end(), int64_t{0});
  double least = 1;
  for (size_t set = 1; set < size_t{1} << loads.size(); ++set) {
    int64_t load = 0;
    for (size_t expert = 0; expert < loads.size(); ++expert)
      if (set >> expert & 1) load += loads[expert];
    const auto lanes = std::ranges::count_if(experts_of, [&](const std::vector<int>& on_lane) {
      return std::ranges::any_of(on_lane, [&](int expert) { return set >> expert & 1; });
    });
    least = std::max(least, static_cast<double>(load) * static_cast<double>(experts_of.size()) /
                                static_cast<double>(lanes * sum));
  }
  return least;
}

// Every expert somewhere, none twice on a lane.
ExpertsOfNodes random_places(TestRandom& random, int experts, int lanes) {
  ExpertsOfNodes experts_of(static_cast<size_t>(lanes));
  for (int expert = 0; expert < experts; ++expert) {
    const int home = random.integer(0, lanes - 1);
    for (int lane = 0; lane < lanes; ++lane)
      if (lane == home || random.integer(0, 3) == 0)
        experts_of[static_cast<size_t>(lane)].push_back(expert);
  }
  return experts_of;
}

TEST(LoadSharingTest, TheBusiestLaneHasHardlyMoreThanItMust) {
  TestRandom random(17);
  for (int round = 0; round < 2000; ++round) {
    const int experts = random.integer(1, 8), lanes = random.integer(1, 9);
    Loads loads;
    for (int e = 0; e < experts; ++e) loads.push_back(random.integer(1, 1000) * 65536);
    const ExpertsOfNodes experts_of = random_places(random, experts, lanes);
    const double slowdown = evened(loads, experts_of).slowdown(),
                 least = least_slowdown(loads, experts_of);
    ASSERT_GE(slowdown, 0.9999 * least) << "round " << round;
    ASSERT_LE(slowdown, 1.02 * least) << "round " << round;
  }
}

TEST(LoadSharingTest, TheTokensOfAnExchangeAreAllServed) {
  TestRandom random(18);
  for (int round = 0; round < 500; ++round) {
    const int experts = random.integer(1, 12), lanes = random.integer(1, 12);
    std::vector<std::vector<int>> lanes_of(static_cast<size_t>(experts));
    const ExpertsOfNodes experts_of = random_places(random, experts, lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      for (const int expert : experts_of[static_cast<size_t>(lane)])
        lanes_of[static_cast<size_t>(expert)].push_back(lane);
    }
    std::vector<int64_t> tokens;
    Loads loads(static_cast<size_t>(experts));
    for (int i = 0; i < lanes * experts; ++i) {
      tokens.push_back(random.integer(0, 9) * random.integer(0, 99));
      loads[static_cast<size_t>(i % experts)] += tokens.back();
    }
    LoadSharing sharing(tokens, ExpertPlacement(lanes_of, lanes));
    sharing.even_out();
    for (int expert = 0; expert < experts; ++expert) {
      const std::vector<int64_t> shared = parts(sharing, expert);
      ASSERT_GE(*std::ranges::min_element(shared), 0);
      ASSERT_EQ(std::accumulate(shared.begin(), shared.end(), int64_t{0}),
                loads[static_cast<size_t>(expert)]);
    }
    // In few tokens one more or less is much.
    if (*std::ranges::max_element(loads) < 1000) continue;
    ASSERT_LE(sharing.slowdown(), 1.02 * slowdown_of(loads, experts_of) + 0.01) << round;
  }
}

TEST(LoadSharingTest, OfAPlanAsOfTheLanesItMeans) {
  TestRandom random(83);
  for (int round = 0; round < 500; ++round) {
    Loads loads;
    for (int e = random.integer(1, 30); e > 0; --e) loads.push_back(random.integer(0, 999));
    const LanePlan plan =
        plan_by_load(loads, {.lanes = random.integer(1, 20), .slots = random.integer(1, 5)});
    EXPECT_EQ(slowdown_of(loads, plan), slowdown_of(loads, plan.experts_of()));
  }
}

}  // namespace
}  // namespace evermoe
