#include "experts/migration/expert_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "parallel/random_testing.h"

namespace evermoe {
namespace {

ExpertsOfNodes random_sets(TestRandom& random, int nodes, int experts, int slots_max) {
  ExpertsOfNodes sets(nodes);
  for (auto& on_node : sets) {
    for (int i = random.integer(0, slots_max); i > 0; --i)
      on_node.push_back(random.integer(0, experts - 1));
  }
  return sets;
}

bool holds(const ExpertsOfNodes& sets, int node, int expert) {
  return std::count(sets[node].begin(), sets[node].end(), expert) > 0;
}

void expect_sound(const ExpertsOfNodes& held, const ExpertsOfNodes& wanted,
                  const TransferPlan& plan) {
  std::multiset<std::pair<int, int>> got;  // (node, expert)
  std::set<std::pair<int, int>> sending, receiving;
  std::map<int, int> sent, received;
  for (const ExpertTransfer& it : plan.transfers) {
    ASSERT_TRUE(holds(held, it.source, it.expert));
    ASSERT_TRUE(it.round >= 0 && it.round < plan.rounds);
    ASSERT_TRUE(sending.insert({it.source, it.round}).second) << "sends twice in a round";
    ASSERT_TRUE(receiving.insert({it.destination, it.round}).second) << "receives twice in a round";
    ASSERT_LE(++sent[it.source], plan.sent_max);
    ASSERT_LE(++received[it.destination], plan.received_max);
    got.insert({it.destination, it.expert});
  }
  for (const ExpertFetch& fetch : plan.unavailable) {
    for (size_t node = 0; node < held.size(); ++node)
      ASSERT_FALSE(holds(held, static_cast<int>(node), fetch.expert));
    got.insert({fetch.node, fetch.expert});
  }
  for (int node = 0; node < static_cast<int>(held.size()); ++node) {
    for (const int expert : std::set<int>(wanted[node].begin(), wanted[node].end())) {
      ASSERT_EQ(got.count({node, expert}), holds(held, node, expert) ? 0u : 1u);
      got.erase({node, expert});
    }
  }
  EXPECT_TRUE(got.empty()) << "fetched without need";
  EXPECT_EQ(plan.rounds, std::max(plan.sent_max, plan.received_max));
  EXPECT_TRUE(std::is_sorted(plan.transfers.begin(), plan.transfers.end()));
}

// The least that the busiest source must send, over all choices of sources.
int least_sent_max(const ExpertsOfNodes& held, const TransferPlan& plan) {
  std::vector<int> sent(held.size(), 0);
  int least = static_cast<int>(plan.transfers.size());
  std::function<void(size_t, int)> choose = [&](size_t i, int busiest) {
    if (busiest >= least) return;
    if (i == plan.transfers.size()) {
      least = busiest;
      return;
    }
    for (int node = 0; node < static_cast<int>(held.size()); ++node) {
      if (!holds(held, node, plan.transfers[i].expert)) continue;
      ++sent[node];
      choose(i + 1, std::max(busiest, sent[node]));
      --sent[node];
    }
  };
  choose(0, 0);
  return least;
}

TEST(ExpertTransferTest, NoChoiceOfSourcesNeedsFewerRounds) {
  TestRandom random(51);
  int bound_by_sources = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int nodes = random.integer(1, 6), experts = random.integer(1, 6);
    const ExpertsOfNodes held = random_sets(random, nodes, experts, 2),
                         wanted = random_sets(random, nodes, experts, 3);
    const TransferPlan plan = plan_transfers(held, wanted);
    expect_sound(held, wanted, plan);
    ASSERT_EQ(plan.rounds, std::max(plan.received_max, least_sent_max(held, plan)))
        << "trial " << trial;
    bound_by_sources += plan.sent_max > plan.received_max;
  }
  EXPECT_GT(bound_by_sources, 100);
}

TEST(ExpertTransferTest, LargeMigrationsFillEveryRound) {
  TestRandom random(52);
  for (int trial = 0; trial < 20; ++trial) {
    const int nodes = random.integer(20, 80), experts = random.integer(20, 200);
    const ExpertsOfNodes held = random_sets(random, nodes, experts, 20);
    const ExpertsOfNodes wanted = random_sets(random, nodes, experts, 20);
    expect_sound(held, wanted, plan_transfers(held, wanted));
  }
}

TEST(ExpertTransferTest, OwnersShareTheWork) {
  const ExpertsOfNodes held = {{0}, {0}, {}, {}, {}, {}}, wanted = {{0}, {0}, {0}, {0}, {0}, {0}};
  const TransferPlan plan = plan_transfers(held, wanted);
  EXPECT_EQ(plan.sent_max, 2);
  EXPECT_EQ(plan.rounds, 2);
  EXPECT_EQ(plan.transfers.size(), 4u);
}

TEST(ExpertTransferTest, WhatNobodyHoldsIsNamed) {
  const TransferPlan plan = plan_transfers({{1}, {}}, {{2, 2, 1}, {1, 3}});
  EXPECT_EQ(plan.unavailable, (std::vector<ExpertFetch>{{2, 0}, {3, 1}}));
  EXPECT_EQ(
      plan.transfers,
      (std::vector<ExpertTransfer>{{.round = 0, .source = 0, .destination = 1, .expert = 1}}));
  EXPECT_EQ(plan_transfers({{1}}, {{1}}).rounds, 0);
}

}  // namespace
}  // namespace evermoe
