#include "experts/migration/heaviest_transport.h"

#include <gtest/gtest.h>

#include <numeric>

#include "parallel/flow_network.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

struct Groups {
  std::vector<int> supply, demand;
  std::vector<TransportPair> pairs;
};

Groups random_groups(TestRandom& random, int groups_max, int size_max, int weight_max) {
  Groups drawn;
  for (int left = random.integer(1, groups_max); left > 0; --left)
    drawn.supply.push_back(random.integer(0, size_max));
  for (int right = random.integer(1, groups_max); right > 0; --right)
    drawn.demand.push_back(random.integer(0, size_max));
  const int density = random.integer(1, 4);
  for (int left = 0; left < std::ssize(drawn.supply); ++left) {
    for (int right = 0; right < std::ssize(drawn.demand); ++right) {
      if (random.integer(1, 4) <= density)
        drawn.pairs.push_back({left, right, random.integer(1, weight_max)});
    }
  }
  return drawn;
}

// What is carried, after a check that groups neither give nor get more than they may.
int64_t weight_of(const Groups& of, const std::vector<int>& carried) {
  std::vector<int> supply = of.supply, demand = of.demand;
  int64_t weight = 0;
  for (size_t p = 0; p < of.pairs.size(); ++p) {
    EXPECT_GE(carried[p], 0);
    supply[static_cast<size_t>(of.pairs[p].left)] -= carried[p];
    demand[static_cast<size_t>(of.pairs[p].right)] -= carried[p];
    weight += int64_t{carried[p]} * of.pairs[p].weight;
  }
  for (const int left : supply) EXPECT_GE(left, 0);
  for (const int left : demand) EXPECT_GE(left, 0);
  return weight;
}

// By minimum-cost flow; what need not be exchanged goes through a hub.
int64_t greatest_weight(const Groups& of) {
  FlowNetwork network;
  const int64_t supplied = std::accumulate(of.supply.begin(), of.supply.end(), int64_t{0});
  const int64_t demanded = std::accumulate(of.demand.begin(), of.demand.end(), int64_t{0});
  for (const int supply : of.supply) network.add_node(supply);
  for (const int demand : of.demand) network.add_node(-demand);
  const int hub = network.add_node(demanded - supplied);
  const auto lefts = static_cast<int>(of.supply.size());
  for (int left = 0; left < lefts; ++left) network.add_arc(left, hub, supplied);
  for (int right = 0; right < std::ssize(of.demand); ++right)
    network.add_arc(hub, lefts + right, demanded);
  for (const TransportPair& pair : of.pairs)
    network.add_arc(pair.left, lefts + pair.right, supplied, -pair.weight);
  EXPECT_TRUE(network.solve());
  return -network.cost();
}

TEST(HeaviestTransportTest, TheHeavierPairWaitsWhereThatIsBetterForBoth) {
  const std::vector<int> one_each = {1, 1};
  const std::vector<TransportPair> pairs = {{0, 0, 3}, {0, 1, 2}, {1, 0, 2}};
  EXPECT_EQ(heaviest_transport(one_each, one_each, pairs), (std::vector<int>{0, 1, 1}));
}

TEST(HeaviestTransportTest, NothingToCarry) {
  EXPECT_TRUE(heaviest_transport({}, {}, {}).empty());
  EXPECT_TRUE(heaviest_transport(std::vector<int>{3}, std::vector<int>{2}, {}).empty());
  EXPECT_EQ(heaviest_transport(std::vector<int>{0}, std::vector<int>{2},
                               std::vector<TransportPair>{{0, 0, 5}}),
            std::vector<int>{0});
}

TEST(HeaviestTransportTest, AsHeavyAsByMinimumCostFlow) {
  TestRandom random(51);
  for (int round = 0; round < 3000; ++round) {
    const Groups drawn = random_groups(random, 9, random.integer(1, 6), random.integer(1, 12));
    const auto carried = heaviest_transport(drawn.supply, drawn.demand, drawn.pairs);
    ASSERT_EQ(weight_of(drawn, carried), greatest_weight(drawn)) << round;
  }
}

TEST(HeaviestTransportTest, ManyGroups) {
  TestRandom random(52);
  for (int round = 0; round < 10; ++round) {
    const Groups drawn = random_groups(random, 150, 5, 4);
    const auto carried = heaviest_transport(drawn.supply, drawn.demand, drawn.pairs);
    ASSERT_EQ(weight_of(drawn, carried), greatest_weight(drawn)) << round;
  }
}

}  // namespace
}  // namespace evermoe
