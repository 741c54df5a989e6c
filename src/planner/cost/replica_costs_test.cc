// Live replicas: what they survive against real placements, what they cost, and when a plan takes
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "experts/placement/replica_allocation.h"
#include "experts/placement/replica_placement.h"
#include "parallel/random_testing.h"
#include "planner/failures/failure_trace.h"
#include "planner/plan/plan_testing.h"
#include "planner/simulate/closed_forms.h"
#include "planner/simulate/job_places.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

std::vector<int> members(unsigned set, int size) {
  std::vector<int> result;
  for (int i = 0; i < size; ++i) {
    if (set >> i & 1) result.push_back(i);
  }
  return result;
}

bool every_expert_lives(const ExpertsOfNodes& experts_of, unsigned lost, int experts) {
  std::vector<bool> alive(static_cast<size_t>(experts));
  for (size_t node = 0; node < experts_of.size(); ++node) {
    if (lost >> node & 1) continue;
    for (const int expert : experts_of[node]) alive[static_cast<size_t>(expert)] = true;
  }
  return std::find(alive.begin(), alive.end(), false) == alive.end();
}

// Real placements of equally loaded experts, at full size and with fewer nodes: whatever the rule
// says is survived, is; and it never says less than any number of losses that the allocation's
// threshold promises.
TEST(ReplicasSurviveTest, NoMoreThanRealPlacementsDo) {
  TestRandom random(5);
  int placements = 0, survived = 0;
  while (placements < 600) {
    const int nodes = random.integer(2, 8), experts = random.integer(1, 9),
              replicas = random.integer(1, nodes);
    if (experts * replicas % nodes != 0) continue;
    const int slots = experts * replicas / nodes, alive = random.integer(1, nodes);
    if (alive * slots < experts) continue;
    ++placements;
    const auto counts = allocate_replicas(std::vector<int64_t>(static_cast<size_t>(experts), 1),
                                          alive, slots, replicas);
    ASSERT_TRUE(counts.ok()) << counts.status();
    const auto placed = place_replicas(counts->replicas, alive, slots);
    ASSERT_TRUE(placed.ok()) << placed.status();
    std::vector<int> holders(static_cast<size_t>(alive));
    std::iota(holders.begin(), holders.end(), 0);
    for (unsigned lost = 0; lost < 1u << alive; ++lost) {
      const bool says = replicas_survive(holders, members(lost, alive), 1, replicas, nodes);
      EXPECT_TRUE(!says || every_expert_lives(placed->experts_of, lost, experts))
          << alive << " of " << nodes << ", lost " << lost;
      EXPECT_TRUE(says || std::popcount(lost) >= std::min(alive, counts->faults));
      survived += says;
    }
  }
  EXPECT_GT(survived, 5000);
}

TEST(ReplicasSurviveTest, StagesAreApart) {
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};  // 4 stages of 2
  EXPECT_TRUE(replicas_survive(all, std::vector<int>{1, 2, 4, 7}, 4, 2, 8));
  EXPECT_FALSE(replicas_survive(all, std::vector<int>{2, 3}, 4, 2, 8));
  EXPECT_FALSE(replicas_survive(all, std::vector<int>{2}, 4, 1, 8));
  // Lost slots that never had the state take nothing with them.
  EXPECT_TRUE(replicas_survive(std::vector<int>{0, 1}, std::vector<int>{5, 6, 7}, 1, 2, 2));
}

SimulatedRun play_events(const TrainedJob& job, const RunStrategy& strategy,
                         std::vector<FailureTrace::Event> events) {
  FailureTrace trace;
  for (int n = 0; n < job.nodes; ++n) trace.nodes.push_back(std::to_string(n));
  trace.up_at_start.assign(trace.nodes.size(), true);
  trace.events = std::move(events);
  return simulate_run(job, strategy, *play_availability(trace), {.wall_seconds = 200});
}

TEST(ReplicasSurviveTest, FewerNodesHaveRoomForFewerReplicas) {
  RunStrategy strategy{.protection = StateProtection::kReplicas,
                       .replacement = NodeReplacement::kElastic,
                       .copies = 1};
  const TrainedJob job{.nodes = 4, .nodes_least = 2};
  EXPECT_EQ(play_events(job, strategy, {{50, Kind::kDown, {3}}}).fallbacks, 0);
  // Three nodes have room for 6 of 8 replicas: once more is once too many for some expert.
  EXPECT_EQ(play_events(job, strategy, {{50, Kind::kDown, {3}}, {100, Kind::kDown, {2}}}).fallbacks,
            1);
  strategy.copies = 3;
  EXPECT_EQ(play_events(job, strategy, {{50, Kind::kDown, {3}}, {100, Kind::kDown, {2}}}).fallbacks,
            0);
}

// Half a step and a recovery for each failure: a free save after every step.
TEST(SimulationMeetsTest, LiveReplicasUnderPoissonFailures) {
  for (const double mtbf : {400.0, 3000.0}) {
    RunStrategy strategy{
        .protection = StateProtection::kReplicas, .copies = 11, .step_overhead_share = 0.05};
    strategy.recovery = {.detect = 2, .restart = 15, .load_memory = 3};
    const TrainedJob job{.step_seconds = 12, .nodes = 12};
    const RunEstimates run = estimate_runs(
        job, strategy, {.wall_seconds = 2000 * mtbf},
        [&](uint64_t seed) {
          return draw_availability({.node_mtbf_seconds = mtbf * 12}, 12, 0, seed);
        },
        20, 3);
    EXPECT_EQ(run.fallbacks, 0);
    EXPECT_NEAR(run.ettr.mean, dense_ettr(12, {.every_steps = 1}, 0.05, 20, mtbf),
                4 * run.ettr.error);
    EXPECT_LT(run.ettr.error, 0.01);
  }
}

ExpertPlan twice() {
  return {.experts = 10, .replicas = 2, .nodes = 2, .slots = 10, .distinct_least = 2};
}

// Two lanes with 10 GB of shards each hold 20 GB of weights, masters and moments, and gradients of
// a third of the 12/14 of it.
TEST(ReplicaCostsTest, WholeStatesOnEveryRank) {
  const auto priced =
      std::get<PricedProtection>(price_replicas(small_job(), small_cluster(0.5), {}, twice()));
  EXPECT_EQ(priced.strategy.protection, StateProtection::kReplicas);
  EXPECT_EQ(priced.strategy.copies, 1);
  EXPECT_EQ(priced.strategy.save.every_steps, 0);
  EXPECT_GT(priced.strategy.fallback.every_steps, 0);
  // The update takes no longer than the 0.1 s that the job says; but 4-byte gradients are gathered,
  // not 2-byte weights.
  const double wider = 20e9 * 4 / 14 - 20e9 * 2 / 14;
  EXPECT_NEAR(priced.strategy.step_overhead_share, wider / 2 / 25e9 / 10, 1e-9);
  EXPECT_NEAR(priced.strategy.recovery.load_memory, 20e9 / 0.5e9, 1e-3);
  EXPECT_EQ(priced.host_bytes_per_gpu, 2 * 10e9);  // the durable saves below, each rank its share
  // Where updates are what takes time, twice as much is updated.
  JobProfile job = small_job();
  job.update_seconds = 30 * (10e9 * 12 / 14) / 12 / 2039e9;
  const auto updated =
      std::get<PricedProtection>(price_replicas(job, small_cluster(0.5), {}, twice()));
  EXPECT_NEAR(updated.strategy.step_overhead_share - priced.strategy.step_overhead_share,
              job.update_seconds / 10, 1e-8);
}

TEST(ReplicaCostsTest, RefusedWithTheReason) {
  auto reason = [](const ClusterSpec& cluster, const PlanBudget& budget,
                   const ExpertPlan& experts) {
    return std::get<ProtectionRefused>(price_replicas(small_job(), cluster, budget, experts))
        .reason;
  };
  const ExpertPlan once{.experts = 10, .reason = "once"};
  EXPECT_EQ(
      reason(small_cluster(2), {}, once),
      "not every state is on two nodes of its stage (once); parallel.expert_replicas decides");
  ClusterSpec small_gpus = small_cluster(2);
  small_gpus.gpu.memory_bytes = 26e9;
  EXPECT_EQ(reason(small_gpus, {}, twice()),
            "whole optimizer states on every rank need 25.7 GB of each GPU, which has 23.9 GB to "
            "use (with shards it is 0.0 GB)");
  EXPECT_EQ(reason(small_cluster(2), {.host_bytes_per_gpu = 1e9}, twice()),
            "needs 20.0 GB of host memory per GPU, 1.0 GB are allowed");
  EXPECT_EQ(reason(small_cluster(2), {.stall_share_max = 0.001}, twice()),
            "lengthens a mean step by 0.6 %, 0.1 % are allowed");
}

// Every step is longer by 5 % while links carry copies: what copies nothing and loses only the step
// under way wins.
TEST(PlanCandidatesTest, LiveReplicasWinWhereCopiesSlowEveryStep) {
  ClusterSpec cluster = small_cluster(0.5);
  cluster.capture_overhead_share = 0.05;
  const ProtectionPlan plan = planned(small_job(), cluster, {.stall_share_max = 5}, 2);
  const RunStrategy& strategy = plan.best.priced.strategy;
  ASSERT_EQ(strategy.protection, StateProtection::kReplicas) << strategy.name;
  EXPECT_FALSE(plan.best.runs_today());
  ASSERT_TRUE(plan.today.has_value());
  EXPECT_TRUE(plan.today->runs_today());
  EXPECT_NE(plan.today->priced.strategy.protection, StateProtection::kReplicas);
  EXPECT_LT(plan.today->score, plan.best.score);
  const ProtectionPlan without = planned(small_job(), cluster, {.stall_share_max = 5}, 1);
  EXPECT_NE(without.best.priced.strategy.protection, StateProtection::kReplicas);
}

// All that the simulation knows takes part, each with the replacements that make sense for it.
TEST(PlanCandidatesTest, EveryStrategyTakesPart) {
  ClusterSpec cluster = small_cluster(2);
  cluster.failures = {.node_mtbf_seconds = 40 * kDay, .repair_seconds = 2 * kDay};
  cluster.storage_bytes_per_second = 50e9;
  cluster.disk_bytes_per_second = 0;
  const ProtectionPlan plan =
      planned(small_job(), cluster, {.stall_share_max = 2, .lost_share_max = 0.5}, 2);
  std::vector<PlanCandidate> all = plan.others;
  all.push_back(plan.best);
  auto takes_part = [&](StateProtection protection, NodeReplacement replacement) {
    return std::any_of(all.begin(), all.end(), [&](const PlanCandidate& candidate) {
      return candidate.priced.strategy.protection == protection &&
             candidate.priced.strategy.replacement == replacement;
    });
  };
  using enum StateProtection;
  for (const StateProtection protection :
       {kDurable, kPeerMemory, kGradients, kPartialExperts, kSparse, kReplicas}) {
    EXPECT_TRUE(takes_part(protection, NodeReplacement::kStandby)) << to_string(protection);
  }
  for (const StateProtection protection : {kDurable, kPeerMemory, kGradients, kSparse}) {
    EXPECT_TRUE(takes_part(protection, NodeReplacement::kRestart)) << to_string(protection);
  }
  EXPECT_TRUE(takes_part(kReplicas, NodeReplacement::kElastic));
  // One of them has no protection at all, and trains next to nothing.
  const auto none = std::find_if(all.begin(), all.end(),
                                 [](const auto& candidate) { return candidate.is_unprotected(); });
  ASSERT_NE(none, all.end());
  EXPECT_LT(none->estimates.ettr.mean, 0.05);
  EXPECT_TRUE(std::is_sorted(plan.others.begin(), plan.others.end(),
                             [](const auto& a, const auto& b) { return a.score > b.score; }));
}

TEST(PlanCandidatesTest, TodayIsTheBestOfWhatTheRuntimeHas) {
  ClusterSpec cluster = small_cluster(2);
  cluster.failures = {.node_mtbf_seconds = 40 * kDay, .repair_seconds = 2 * kDay};
  const ProtectionPlan plan = planned(small_job(), cluster);
  ASSERT_TRUE(plan.today.has_value());
  EXPECT_TRUE(plan.best.runs_today()) << plan.best.missing;
  EXPECT_EQ(plan.today->priced.strategy.name, plan.best.priced.strategy.name);
  for (const PlanCandidate& other : plan.others) {
    EXPECT_TRUE(!other.runs_today() || other.score <= plan.today->score)
        << other.priced.strategy.name;
  }
}

TEST(RunStrategyTest, WhatTheRuntimeDoesNotHave) {
  EXPECT_EQ(missing_in_runtime({}), "");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kSparse}), "");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kPeerMemory}), "");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kGradients}), "");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kReplicas,
                                .replacement = NodeReplacement::kElastic}),
            "recovery from live replicas");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kSparse,
                                .replacement = NodeReplacement::kElastic,
                                .migrates = true}),
            "");
  EXPECT_EQ(missing_in_runtime({.replacement = NodeReplacement::kElastic}), "");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kPartialExperts,
                                .replacement = NodeReplacement::kElastic}),
            "partial experts on fewer nodes");
  EXPECT_EQ(missing_in_runtime({.replacement = NodeReplacement::kStandby, .migrates = true}),
            "moves without copies in peers' memory");
  EXPECT_EQ(missing_in_runtime({.replacement = NodeReplacement::kStandby}), "");
  EXPECT_EQ(missing_in_runtime({.protection = StateProtection::kPartialExperts}), "");
}

}  // namespace
}  // namespace evermoe
