#include "experts/migration/node_matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "experts/placement/replica_allocation.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

ExpertsOfNodes random_experts(TestRandom& random, int nodes, int experts, int slots_max) {
  ExpertsOfNodes sets(nodes);
  for (auto& on_node : sets) {
    for (int i = random.integer(0, slots_max); i > 0; --i)
      on_node.push_back(random.integer(0, experts - 1));
  }
  return sets;
}

int64_t cost(const ExpertsOfNodes& held, const ExpertsOfNodes& plan,
             const std::vector<int>& plan_node_of) {
  int64_t fetched = 0;
  for (size_t p = 0; p < held.size(); ++p) {
    const std::set<int> has(held[p].begin(), held[p].end());
    const auto& shall = plan[plan_node_of[p]];
    for (const int expert : std::set<int>(shall.begin(), shall.end()))
      fetched += !has.count(expert);
  }
  return fetched;
}

int64_t least_cost(const ExpertsOfNodes& held, const ExpertsOfNodes& plan) {
  std::vector<std::vector<int64_t>> pair_cost(held.size());
  for (size_t p = 0; p < held.size(); ++p) {
    for (const auto& shall : plan) pair_cost[p].push_back(cost({held[p]}, {shall}, {0}));
  }
  std::vector<int> order(held.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = std::numeric_limits<int64_t>::max();
  do {
    int64_t sum = 0;
    for (size_t p = 0; p < held.size(); ++p) sum += pair_cost[p][order[p]];
    least = std::min(least, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

void expect_permutation(const NodeMatching& matching) {
  std::vector<int> sorted = matching.plan_node_of;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<int>(i));
}

TEST(NodeMatchingTest, SmallestCaseWhereGreedyPays) {
  const ExpertsOfNodes held = {{1, 2}, {0, 2}}, plan = {{2, 3}, {1, 3}};
  const NodeMatching matching = match_nodes(held, plan);
  EXPECT_EQ(matching.fetched, 2);
  EXPECT_EQ(matching.plan_node_of, (std::vector<int>{1, 0}));
  EXPECT_TRUE(matching.is_exact);
}

TEST(NodeMatchingTest, LeastOfAllMappings) {
  TestRandom random(41);
  for (int trial = 0; trial < 2000; ++trial) {
    const int nodes = random.integer(1, 6), experts = random.integer(1, 9);
    const ExpertsOfNodes held = random_experts(random, nodes, experts, 4),
                         plan = random_experts(random, nodes, experts, 4);
    const NodeMatching matching = match_nodes(held, plan);
    expect_permutation(matching);
    ASSERT_EQ(matching.fetched, cost(held, plan, matching.plan_node_of));
    ASSERT_EQ(matching.fetched, least_cost(held, plan)) << "trial " << trial;
  }
}

TEST(NodeMatchingTest, GreedyWithSwapsIsSoundAndCannotBeSwappedBetter) {
  TestRandom random(42);
  int64_t greedy_sum = 0, exact_sum = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int nodes = random.integer(2, 12), experts = random.integer(4, 16);
    const ExpertsOfNodes held = random_experts(random, nodes, experts, 6),
                         plan = random_experts(random, nodes, experts, 6);
    const NodeMatching greedy = match_nodes(held, plan, 0), exact = match_nodes(held, plan);
    expect_permutation(greedy);
    ASSERT_FALSE(greedy.is_exact);
    ASSERT_EQ(greedy.fetched, cost(held, plan, greedy.plan_node_of));
    ASSERT_GE(greedy.fetched, exact.fetched);
    greedy_sum += greedy.fetched;
    exact_sum += exact.fetched;
    for (int a = 0; a < nodes; ++a) {
      for (int b = 0; b < a; ++b) {
        std::vector<int> swapped = greedy.plan_node_of;
        std::swap(swapped[a], swapped[b]);
        ASSERT_GE(cost(held, plan, swapped), greedy.fetched);
      }
    }
  }
  EXPECT_LT(greedy_sum, exact_sum * 1.05);
}

TEST(NodeMatchingTest, NothingMovesWhenAPlanOnlyNumbersNodesAnew) {
  TestRandom random(43);
  for (int trial = 0; trial < 200; ++trial) {
    const int nodes = random.integer(1, 40);
    const ExpertsOfNodes held = random_experts(random, nodes, 20, 5);
    ExpertsOfNodes plan = held;
    random.shuffle(plan);
    const NodeMatching matching = match_nodes(held, plan);
    EXPECT_EQ(matching.fetched, 0);
    const ExpertsOfNodes after = on_physical_nodes(plan, matching);
    for (int node = 0; node < nodes; ++node) {
      EXPECT_EQ(std::set<int>(after[node].begin(), after[node].end()),
                std::set<int>(held[node].begin(), held[node].end()));
    }
  }
}

TEST(NodeMatchingTest, AJoinedNodeTakesWhatNobodyElseWants) {
  const ExpertsOfNodes held = {{}, {0, 1}, {2, 3}}, plan = {{0, 1}, {2, 3}, {4, 5}};
  EXPECT_EQ(match_nodes(held, plan).plan_node_of, (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(match_nodes(held, plan).fetched, 2);
  EXPECT_EQ(match_nodes({{}, {}}, {{1}, {2}}).plan_node_of, (std::vector<int>{0, 1}));
}

// One of 32 nodes fails: keeping the rest in order fetches more than twice as much as the best
// mapping.
TEST(NodeMatchingTest, AfterAFailureOfOneNodeLittleMoves) {
  TestRandom random(44);
  int64_t in_order = 0, best = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const int nodes = 32, slots = 8, experts = 64;
    std::vector<int64_t> loads;
    for (int e = 0; e < experts; ++e)
      loads.push_back(static_cast<int64_t>(1000 / (1 - random.uniform())));
    const auto before =
        place_replicas(allocate_replicas(loads, nodes, slots, 2)->replicas, nodes, slots);
    ExpertsOfNodes held = before->experts_of;
    held.erase(held.begin() + random.integer(0, nodes - 1));
    const auto after = place_replicas(allocate_replicas(loads, nodes - 1, slots, 2)->replicas,
                                      nodes - 1, slots, {.previous_order = before->order});
    std::vector<int> identity(nodes - 1);
    std::iota(identity.begin(), identity.end(), 0);
    in_order += cost(held, after->experts_of, identity);
    best += match_nodes(held, after->experts_of).fetched;
  }
  EXPECT_LT(best * 2, in_order);
}

}  // namespace
}  // namespace evermoe
