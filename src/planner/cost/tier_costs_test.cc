// What saves to each tier cost and how often they are made, against numbers worked out by hand.
#include "planner/cost/tier_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan/plan_testing.h"

namespace evermoe {
namespace {

// Ranks of 10 GB at 0.5 GB/s to their hosts: 20 s, of which a step hides 10. To two peers at 25
// GB/s: 0.8 s. The whole job, 66.406 GB at 5 GB/s: 13.2812 s.
JobProfile counted_job() {
  JobProfile job = small_job();
  job.update_seconds = 0;
  job.state_bytes = 66.406e9;
  return job;
}

// A node fails once an hour, the whole job once in a million seconds. In the 2 (188 + 10 steps) s
// after a failure of the 8 h between those of one node another one is a danger: 0.02, and for two
// holders at once 0.0004, so that all copies of a state go once in 3600 / 0.0004 = 9 million
// seconds.
ClusterSpec counted_cluster() {
  ClusterSpec cluster = small_cluster(0.5);
  cluster.capture_overhead_share = 0.5;
  cluster.recovery.detect = 2;
  cluster.recovery.restart = 188;
  cluster.failures.whole_job_node_seconds = 8e6;
  return cluster;
}

TierAdvice priced(const JobProfile& job, const ClusterSpec& cluster, int copies) {
  const auto advice = price_tiers(job, cluster, copies);
  EXPECT_TRUE(std::holds_alternative<TierAdvice>(advice));
  return std::get<TierAdvice>(advice);
}

TEST(TierCostsTest, ASaveStallsAndSlowsAndARestartLoads) {
  const std::vector<CheckpointTier> tiers = priced(counted_job(), counted_cluster(), 2).tiers;
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0].name, "peer memory");
  EXPECT_NEAR(tiers[0].save_seconds, 10 + 0.5 * 0.8 + 0.001, 1e-9);
  EXPECT_NEAR(tiers[0].restart_seconds, 2 + 188 + 20, 1e-9);
  EXPECT_EQ(tiers[0].shortest_interval_seconds, 10);  // a step
  EXPECT_EQ(tiers[1].name, "durable storage");
  EXPECT_NEAR(tiers[1].save_seconds, 10 + 0.5 * 13.2812 + 0.001, 1e-9);
  EXPECT_NEAR(tiers[1].restart_seconds, 2 + 188 + 13.2812, 1e-9);
  EXPECT_NEAR(tiers[1].shortest_interval_seconds, 13.2812, 1e-9);  // until it has arrived
}

TEST(TierCostsTest, EveryFailureHasTheWeakestTierThatSurvivesIt) {
  ClusterSpec cluster = counted_cluster();
  const std::vector<FailureKind> kinds = priced(counted_job(), cluster, 2).kinds;
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_NEAR(kinds[0].mtbf_seconds, kHour, 1e-6);
  EXPECT_EQ(kinds[0].weakest_tier, 0);
  EXPECT_NEAR(kinds[1].mtbf_seconds, 9e6, 1e-3);
  EXPECT_EQ(kinds[1].weakest_tier, 1);
  EXPECT_NEAR(kinds[2].mtbf_seconds, 1e6, 1e-3);
  EXPECT_EQ(kinds[2].weakest_tier, 1);
  cluster.racks = 1;
  cluster.failures.rack_mtbf_seconds = 5e6;
  const std::vector<FailureKind> with_rack = priced(counted_job(), cluster, 2).kinds;
  ASSERT_EQ(with_rack.size(), 4u);
  EXPECT_EQ(with_rack[2].name, "the only rack");
  EXPECT_EQ(with_rack[2].mtbf_seconds, 5e6);
  EXPECT_EQ(with_rack[2].weakest_tier, 1);
}

// C0 = 10.401 s, and C1 = 16.6416 s is 1.6 times that; what storage has to survive comes once in
// 900,000 s (9 million and a million together), 250 times as rarely as what peers do. So the
// intervals of Young are sqrt(2 * 10.401 * 3600) = 273.6552 s and sqrt(1.6 * 250) = 20 times that:
// they nest as they are, and each loses sqrt(2 C L) besides its restarts:
//   peers:   sqrt(2 * 10.401 / 3600)     = 0.07601535, restarts 210 / 3600 = 0.05833333
//   storage: sqrt(2 * 16.6416 / 900,000) = 0.00608123, restarts 203.2812 / 900,000 = 0.00022587
TEST(TierCostsTest, IntervalsAreThoseOfTheClosedForm) {
  const TierPlan plan = priced(counted_job(), counted_cluster(), 2).plan;
  ASSERT_EQ(plan.intervals.size(), 2u);
  EXPECT_EQ(plan.intervals[0].tier, 0);
  EXPECT_EQ(plan.intervals[0].every, 1);
  EXPECT_NEAR(plan.intervals[0].work_seconds, 273.6552, 1e-4);
  EXPECT_EQ(plan.intervals[1].tier, 1);
  EXPECT_EQ(plan.intervals[1].every, 20);
  EXPECT_NEAR(plan.intervals[1].work_seconds, 20 * 273.6552, 2e-3);
  EXPECT_NEAR(plan.waste, 0.07601535 + 0.05833333 + 0.00608123 + 0.00022587, 1e-7);
}

TEST(TierCostsTest, SavesThatCostNothingAreMadeEveryStep) {
  ClusterSpec cluster = counted_cluster();
  cluster.gpu.host_bytes_per_second = 2e9;  // 5 s, within a step
  cluster.capture_overhead_share = 0;
  const TierAdvice advice = priced(counted_job(), cluster, 2);
  EXPECT_NEAR(advice.tiers[0].save_seconds, 0.001, 1e-12);
  EXPECT_EQ(advice.plan.intervals[0].work_seconds, 10);
}

// Copies go to other nodes only.
TEST(TierCostsTest, ASmallJobHasFewerCopiesOrNone) {
  JobProfile job = counted_job();
  ClusterSpec cluster = counted_cluster();
  cluster.nodes = job.nodes = 2;
  const TierAdvice two = priced(job, cluster, 3);
  EXPECT_NEAR(two.tiers[0].save_seconds, 10 + 0.5 * 0.4 + 0.001, 1e-9);  // one copy
  cluster.nodes = job.nodes = 1;
  const TierAdvice one = priced(job, cluster, 3);
  ASSERT_EQ(one.tiers.size(), 1u);
  EXPECT_EQ(one.tiers[0].name, "durable storage");
  ASSERT_EQ(one.kinds.size(), 2u);
  EXPECT_EQ(one.kinds[1].weakest_tier, 0);
  // All that fails, once in 28,800 s and once in 8 million, falls to it. Its disk takes 2 GB/s.
  const double save = 10 + 0.5 * 66.406 / 2 + 0.001, rate = 1 / 28800.0 + 1 / 8e6;
  ASSERT_EQ(one.plan.intervals.size(), 1u);
  EXPECT_NEAR(one.plan.intervals[0].work_seconds, std::sqrt(2 * save / rate), 1e-6);
}

TEST(TierCostsTest, WhatNoTierSurvivesIsSaid) {
  JobProfile job = counted_job();
  ClusterSpec cluster = counted_cluster();
  cluster.storage_bytes_per_second = 0;
  EXPECT_EQ(std::get<ProtectionRefused>(price_tiers(job, cluster, 2)).reason,
            "no tier survives the failure 'all copies of a state'");
  cluster.nodes = job.nodes = 1;
  EXPECT_EQ(std::get<ProtectionRefused>(price_tiers(job, cluster, 2)).reason,
            "there is neither another node nor durable storage");
}

}  // namespace
}  // namespace evermoe
