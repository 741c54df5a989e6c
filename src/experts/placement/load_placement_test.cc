#include "experts/placement/load_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using Loads = std::vector<int64_t>;

std::vector<int> replicas_of(const ExpertsOfNodes& experts_of, size_t experts) {
  std::vector<int> replicas(experts);
  for (const auto& on_lane : experts_of) {
    for (const int expert : on_lane) ++replicas[static_cast<size_t>(expert)];
  }
  return replicas;
}

double busiest(const ExpertsOfNodes& experts_of, const Loads& loads) {
  const std::vector<int> replicas = replicas_of(experts_of, loads.size());
  double most = 0;
  for (const auto& on_lane : experts_of) {
    double load = 0;
    for (const int expert : on_lane) {
      const auto e = static_cast<size_t>(expert);
      load += static_cast<double>(loads[e]) / replicas[e];
    }
    most = std::max(most, load);
  }
  return most;
}

double mean(const ExpertsOfNodes& experts_of, const Loads& loads) {
  return static_cast<double>(std::accumulate(loads.begin(), loads.end(), int64_t{0})) /
         static_cast<double>(experts_of.size());
}

TEST(LoadPlacementTest, AHotExpertIsOnEveryLaneAndTheOthersShareTheRest) {
  // 600 + 4 * 100: with a slot more than 5 experts need the first one is everywhere.
  const ExpertsOfNodes placed =
      place_by_load(Loads{600, 100, 100, 100, 100}, {.lanes = 2, .slots = 3});
  EXPECT_THAT(placed, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(0, 2, 4)));
}

TEST(LoadPlacementTest, WithoutLoadsExpertsAreSpreadEvenly) {
  EXPECT_THAT(place_by_load(Loads(6, 0), {.lanes = 3, .slots = 2}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
}

TEST(LoadPlacementTest, SoFewSlotsThatNotAllWouldFitAreMore) {
  EXPECT_THAT(place_by_load(Loads{5, 5, 5}, {.lanes = 2, .slots = 1}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2)));
}

// One exchange halves what the deal leaves: 9 + 5 and 8 + 6 instead of 9 + 6 and 8 + 5.
TEST(LoadPlacementTest, ReplicasAreExchangedWhereThatHelpsTheBusiest) {
  const Loads loads = {9, 9, 6, 6, 1, 1};
  const ExpertsOfNodes placed = place_by_load(loads, {.lanes = 2, .slots = 3});
  EXPECT_DOUBLE_EQ(busiest(placed, loads), 16);
}

// Cold experts beside hot ones: the paper's groups leave lanes with cold ones alone.
TEST(LoadPlacementTest, IsCloseToEvenWhereLoadsAreSkewed) {
  Loads loads;
  for (int e = 0; e < 64; ++e) loads.push_back(100'000 / (e + 1));
  const ExpertsOfNodes placed = place_by_load(loads, {.lanes = 8, .slots = 10});
  EXPECT_LT(busiest(placed, loads), 1.02 * mean(placed, loads));
}

TEST(LoadPlacementTest, EveryExpertLivesAndSurvivesWhatIsPromisedWhateverTheLoads) {
  TestRandom random(15);
  for (int round = 0; round < 2000; ++round) {
    const int lanes = 1 + random.integer(0, 5);
    const int experts = 1 + random.integer(0, 11);
    const int slots = 1 + random.integer(0, 11);
    const int faults = random.integer(0, 3);
    Loads loads;
    for (int e = 0; e < experts; ++e)
      loads.push_back(random.integer(0, 3) == 0 ? 0 : random.integer(0, 999));
    const ExpertsOfNodes placed =
        place_by_load(loads, {.lanes = lanes, .slots = slots, .faults = faults});
    ASSERT_EQ(std::ssize(placed), lanes);
    const int room = std::clamp(slots, (experts + lanes - 1) / lanes, experts) * lanes;
    const std::vector<int> replicas = replicas_of(placed, loads.size());
    EXPECT_EQ(std::accumulate(replicas.begin(), replicas.end(), 0),
              std::min(room, experts * lanes));
    EXPECT_GE(*std::ranges::min_element(replicas), std::min({faults + 1, lanes, room / experts}));
    for (const auto& on_lane : placed) {
      EXPECT_LE(std::ssize(on_lane) * lanes, room);
      EXPECT_EQ(std::set<int>(on_lane.begin(), on_lane.end()).size(), on_lane.size());
      EXPECT_TRUE(std::ranges::is_sorted(on_lane));
    }
    for (size_t a = 0; a < loads.size(); ++a) {
      for (size_t b = 0; b < loads.size(); ++b) {
        if (loads[a] > loads[b]) {
          EXPECT_GE(replicas[a], replicas[b]) << a << " and " << b;
        }
      }
    }
  }
}

// One by one to the expert whose replicas have most; of equals to the one with fewer replicas, then
// to the lower number.
std::vector<int> counted_one_by_one(const Loads& loads, int lanes, int total, int least) {
  std::vector<int> replicas(loads.size(), least);
  for (int left = total - std::accumulate(replicas.begin(), replicas.end(), 0); left > 0; --left) {
    std::optional<size_t> best;
    for (size_t e = 0; e < loads.size(); ++e) {
      if (replicas[e] == lanes) continue;
      const int64_t more = best ? loads[e] * replicas[*best] - loads[*best] * replicas[e] : 1;
      if (more > 0 || (more == 0 && replicas[e] < replicas[*best])) best = e;
    }
    if (!best) break;
    ++replicas[*best];
  }
  return replicas;
}

TEST(LoadPlacementTest, ReplicasAreWhatOneByOneToTheBusiestComesTo) {
  TestRandom random(16);
  for (int round = 0; round < 2000; ++round) {
    const int lanes = 1 + random.integer(0, 30), experts = 1 + random.integer(0, 20);
    const int slots = std::clamp(random.integer(1, 9), (experts + lanes - 1) / lanes, experts);
    const int faults = random.integer(0, 2);
    const int load_max = random.integer(0, 2) == 0 ? 3 : 1'000'000;
    Loads loads;
    for (int e = 0; e < experts; ++e)
      loads.push_back(random.integer(0, load_max) / random.integer(1, 100));
    const int least = std::min({faults + 1, lanes, lanes * slots / experts});
    const LanePlan plan = plan_by_load(loads, {.lanes = lanes, .slots = slots, .faults = faults});
    ASSERT_EQ(plan.replicas, counted_one_by_one(loads, lanes, lanes * slots, least)) << round;
    ASSERT_EQ(plan.replicas, replicas_of(plan.experts_of(), loads.size())) << round;
  }
}

TEST(LoadPlacementTest, SharesAreRuledOutOnlyWhereNoPlanKeepsThem) {
  TestRandom random(17);
  for (int round = 0; round < 2000; ++round) {
    const LoadPlacementOptions options{.lanes = 1 + random.integer(0, 9),
                                       .slots = random.integer(1, 4)};
    Loads loads;
    for (int e = random.integer(1, 20); e > 0; --e) loads.push_back(random.integer(0, 999));
    const LanePlan plan = plan_by_load(loads, options);
    int64_t most = 1;
    for (size_t e = 0; e < loads.size(); ++e)
      most = std::max(most, (loads[e] + plan.replicas[e] - 1) / plan.replicas[e]);
    EXPECT_TRUE(may_keep_shares_within(loads, options, most));
    const bool is_everywhere = std::ranges::count(plan.replicas, options.lanes) > 0;
    EXPECT_TRUE(most == 1 || is_everywhere || !may_keep_shares_within(loads, options, most - 1));
  }
}

}  // namespace
}  // namespace evermoe
