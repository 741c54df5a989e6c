#include "experts/placement/replica_domains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "experts/placement/replica_allocation.h"
#include "experts/placement/survival.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

FailureDomains racks(const std::vector<int>& rack_of_node) {
  std::vector<DomainPath> paths;
  for (const int rack : rack_of_node)
    paths.push_back({.switch_name = "", .rack = "r" + std::to_string(rack)});
  return FailureDomains(paths);
}

FailureDomains blocks(int nodes, int per_rack) {
  std::vector<int> rack_of_node;
  for (int node = 0; node < nodes; ++node) rack_of_node.push_back(node / per_rack);
  return racks(rack_of_node);
}

ExpertsOfNodes some_plan(TestRandom& random, int nodes, int slots, int experts) {
  std::vector<int64_t> loads;
  for (int e = 0; e < experts; ++e)
    loads.push_back(static_cast<int64_t>(100 / (1 - random.uniform())));
  return place_replicas(allocate_replicas(loads, nodes, slots, 2)->replicas, nodes, slots)
      ->experts_of;
}

TEST(ReplicaDomainsTest, NeighboursInTheOrderAreInDifferentDomains) {
  EXPECT_EQ(interleaved_nodes(blocks(6, 2), DomainLevel::kRack),
            (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(interleaved_nodes(racks({0, 0, 0, 1}), DomainLevel::kRack),
            (std::vector<int>{0, 3, 1, 2}));
  TestRandom random(91);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int> rack_of_node;
    for (int node = random.integer(1, 12); node > 0; --node)
      rack_of_node.push_back(random.integer(0, 3));
    const FailureDomains domains = racks(rack_of_node);
    const std::vector<int> order = interleaved_nodes(domains, DomainLevel::kRack);
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), rack_of_node.size());
    int largest = 0, together = 0;
    const int nodes = static_cast<int>(rack_of_node.size());
    for (int rack = 0; rack < 4; ++rack) {
      largest = std::max(
          largest, static_cast<int>(std::count(rack_of_node.begin(), rack_of_node.end(), rack)));
    }
    for (int i = 1; i < nodes; ++i)
      together += domains.share(order[i - 1], order[i], DomainLevel::kRack);
    EXPECT_EQ(together, std::max(0, 2 * largest - nodes - 1)) << "trial " << trial;
  }
}

TEST(ReplicaDomainsTest, TooCloseByHand) {
  const FailureDomains domains = blocks(4, 2);
  // Experts 1 and 3 have one node each.
  EXPECT_EQ(experts_too_close({{0, 1}, {0, 2}, {2}, {3}}, domains, {}), (std::vector<int>{0}));
  EXPECT_TRUE(experts_too_close({{0, 1}, {0, 2}, {2}, {3}}, domains, {.level = DomainLevel::kNode})
                  .empty());
  EXPECT_TRUE(experts_too_close({{0}, {0}}, blocks(2, 2), {}).empty());  // there is one rack
}

TEST(ReplicaDomainsTest, ANewPlanSurvivesAnyRack) {
  TestRandom random(92);
  for (int trial = 0; trial < 100; ++trial) {
    const int per_rack = random.integer(2, 4), nodes = per_rack * random.integer(3, 6),
              slots = random.integer(1, 4);
    const int experts = random.integer(1, nodes * slots / 2);
    const ExpertsOfNodes plan = some_plan(random, nodes, slots, experts);
    const FailureDomains domains = blocks(nodes, per_rack);
    const auto found = match_nodes_over_domains(ExpertsOfNodes(nodes), plan, domains, {});
    EXPECT_TRUE(found.too_close.empty()) << "trial " << trial;
    const ExpertsOfNodes placed = on_physical_nodes(plan, found.matching);
    EXPECT_TRUE(experts_too_close(placed, domains, {}).empty());
    std::vector<int> rack_of_node;
    for (int node = 0; node < nodes; ++node)
      rack_of_node.push_back(domains.domain_of(node, DomainLevel::kRack));
    const auto curve = survival_curve(experts_of_domains(placed, rack_of_node), experts);
    ASSERT_TRUE(curve.ok());
    EXPECT_EQ(curve->lost[1], 0);
  }
}

int64_t cost(const ExpertsOfNodes& held, const ExpertsOfNodes& placed) {
  int64_t fetched = 0;
  for (size_t node = 0; node < held.size(); ++node) {
    for (const int expert : std::set<int>(placed[node].begin(), placed[node].end())) {
      fetched += !std::count(held[node].begin(), held[node].end(), expert);
    }
  }
  return fetched;
}

TEST(ReplicaDomainsTest, AsFarApartAsAnyMapping) {
  TestRandom random(93);
  int reachable = 0, missed = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const int nodes = random.integer(3, 6), slots = random.integer(1, 3);
    const ExpertsOfNodes plan =
        some_plan(random, nodes, slots, random.integer(1, nodes * slots / 2));
    ExpertsOfNodes held = some_plan(random, nodes, slots, random.integer(1, nodes * slots / 2));
    if (trial % 3 == 0) held.assign(nodes, {});
    std::vector<int> rack_of_node;
    for (int node = 0; node < nodes; ++node) rack_of_node.push_back(random.integer(0, 3));
    const FailureDomains domains = racks(rack_of_node);
    const DomainGoal goal{.domains = random.integer(2, 3)};
    const auto found = match_nodes_over_domains(held, plan, domains, goal);
    const ExpertsOfNodes placed = on_physical_nodes(plan, found.matching);
    EXPECT_EQ(found.matching.fetched, cost(held, placed));
    EXPECT_EQ(found.too_close, experts_too_close(placed, domains, goal));
    EXPECT_GE(found.matching.fetched, match_nodes(held, plan).fetched);

    NodeMatching any{.plan_node_of = std::vector<int>(nodes)};
    std::iota(any.plan_node_of.begin(), any.plan_node_of.end(), 0);
    bool can_reach = false;
    do {
      can_reach = experts_too_close(on_physical_nodes(plan, any), domains, goal).empty();
    } while (!can_reach && std::next_permutation(any.plan_node_of.begin(), any.plan_node_of.end()));
    reachable += can_reach;
    missed += can_reach && !found.too_close.empty();
  }
  EXPECT_GT(reachable, 800);
  EXPECT_EQ(missed, 0);
}

TEST(ReplicaDomainsTest, KeepsTheCheapestMappingWhereItIsApart) {
  const ExpertsOfNodes held = {{0, 1}, {2, 3}, {0, 2}, {1, 3}},
                       plan = {{1, 3}, {0, 2}, {2, 3}, {0, 1}};
  const auto found = match_nodes_over_domains(held, plan, blocks(4, 2), {});
  EXPECT_EQ(found.matching.fetched, 0);
  EXPECT_TRUE(found.matching.is_exact);
}

}  // namespace
}  // namespace evermoe
