// Prices of protections: stalls, copies, windows, durable saves below them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>

#include "planner/cost/protection_costs.h"
#include "planner/plan/plan_testing.h"
#include "planner/simulate/closed_forms.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

TEST(ProtectionCostsTest, WhatFitsIntoAStepStallsNothing) {
  // 10 GB at 2 GB/s take 5 of 9.9 s.
  const auto fast =
      std::get<PricedProtection>(price_peer_memory(small_job(), small_cluster(2), {}));
  EXPECT_EQ(fast.strategy.save.stall_seconds, 0);
  EXPECT_EQ(fast.strategy.save.every_steps, 1);
  EXPECT_EQ(fast.strategy.copies, 2);
  EXPECT_EQ(fast.host_bytes_per_gpu, 2 * 3 * 10e9);
  // At 0.5 GB/s they take 20 s: 10.1 s of stall, and Young's square root of steps between.
  const auto slow = std::get<PricedProtection>(
      price_peer_memory(small_job(), small_cluster(0.5), {.stall_share_max = 1}));
  EXPECT_NEAR(slow.strategy.save.stall_seconds, 10.1, 1e-9);
  EXPECT_EQ(slow.strategy.save.every_steps,
            std::llround(best_interval_seconds({10.1, kHour}) / 10));
}

TEST(ProtectionCostsTest, LessMemoryFewerCopiesThenARefusal) {
  PlanBudget budget{.host_bytes_per_gpu = 45e9};
  EXPECT_EQ(std::get<PricedProtection>(price_peer_memory(small_job(), small_cluster(2), budget))
                .strategy.copies,
            1);
  budget.host_bytes_per_gpu = 30e9;
  EXPECT_EQ(
      std::get<ProtectionRefused>(price_peer_memory(small_job(), small_cluster(2), budget)).reason,
      "needs 40.0 GB of host memory per GPU, 30.0 GB are allowed");
  budget = {.stall_share_max = 0.01};
  EXPECT_NE(std::get<ProtectionRefused>(price_peer_memory(small_job(), small_cluster(0.5), budget))
                .reason.find("lengthens a mean step by"),
            std::string::npos);
}

TEST(ProtectionCostsTest, GradientsCostTheirWayToPeersInEveryStepAndLoseNoStep) {
  const auto priced = [](double links, const PlanBudget& budget) {
    return std::get<PricedProtection>(price_gradients(small_job(), small_cluster(links), budget));
  };
  const PricedProtection fast = priced(2, {.stall_share_max = 1}),
                         slow = priced(1, {.stall_share_max = 1});
  EXPECT_EQ(fast.strategy.save.every_steps, kGradientBaseSteps);
  EXPECT_GT(fast.strategy.step_overhead_share, 0);
  EXPECT_GT(slow.strategy.step_overhead_share, 1.5 * fast.strategy.step_overhead_share);
  const PricedProtection often = priced(2, {.stall_share_max = 1, .copies = 1, .save_every = 4}),
                         rare = priced(2, {.stall_share_max = 1, .copies = 1, .save_every = 12});
  EXPECT_LT(often.host_bytes_per_gpu, rare.host_bytes_per_gpu) << "fewer gradients are kept";
  EXPECT_LT(often.strategy.recovery.load_memory, rare.strategy.recovery.load_memory);
}

TEST(ProtectionCostsTest, AMoveTakesItsFixedPartAndItsStateTwice) {
  ClusterSpec cluster = small_cluster(2);
  cluster.recovery.migrate = 0.25;
  // 10 GB at 2 GB/s.
  for (const Priced& priced :
       {price_sparse(small_job(), cluster, {}), price_peer_memory(small_job(), cluster, {}),
        price_gradients(small_job(), cluster, {.stall_share_max = 1})}) {
    EXPECT_NEAR(std::get<PricedProtection>(priced).strategy.recovery.migrate, 0.25 + 2 * 5, 1e-9);
  }
}

// Two lanes a stage on 8 nodes; on 4 one lane has all that two had.
TEST(ProtectionCostsTest, AnElasticJobSetsMemoryAsideForItsFewestNodes) {
  const auto priced =
      std::get<PricedProtection>(price_peer_memory(small_job(), small_cluster(2), {}));
  const auto elastic = [&](const PlanBudget& budget) {
    return price_elastic(priced, small_job(), small_cluster(2), budget);
  };
  EXPECT_EQ(std::get<PricedProtection>(elastic({})).host_bytes_per_gpu,
            2 * priced.host_bytes_per_gpu);
  EXPECT_EQ(std::get<ProtectionRefused>(elastic({.host_bytes_per_gpu = 100e9})).reason,
            "peer memory on 4 nodes needs 120.0 GB of host memory per GPU, 100.0 GB are allowed");
}

TEST(ProtectionCostsTest, SparseTakesTheShortestWindowThatDoesNotStall) {
  // A step has 9.9 s: at 0.5 GB/s 4.95 GB less the log, of 10 GB in all.
  const auto sparse = std::get<PricedProtection>(price_sparse(small_job(), small_cluster(0.5), {}));
  EXPECT_EQ(sparse.strategy.sparse.window, 3);
  EXPECT_EQ(sparse.stall_share, 0);
  // Conversion: two steps less what frozen operators leave out.
  EXPECT_LT(sparse.strategy.sparse.conversion_seconds, 20);
  EXPECT_GT(sparse.strategy.sparse.conversion_seconds, 20 * 0.6);
  const auto fast = std::get<PricedProtection>(price_sparse(small_job(), small_cluster(5), {}));
  EXPECT_EQ(fast.strategy.sparse.window, 1);
  const auto forced =
      std::get<PricedProtection>(price_sparse(small_job(), small_cluster(0.5), {.window = 6}));
  EXPECT_EQ(forced.strategy.sparse.window, 6);
}

TEST(ProtectionCostsTest, StagesShareTheLongestWindow) {
  JobProfile job = small_job();
  for (OperatorProfile& op : job.operators_of_stage[2]) {
    op.cost.full_bytes *= 2;
    op.cost.compute_bytes *= 2;
  }
  const auto sparse = std::get<PricedProtection>(price_sparse(job, small_cluster(0.8), {}));
  const auto light = std::get<PricedProtection>(price_sparse(small_job(), small_cluster(0.8), {}));
  EXPECT_GT(sparse.strategy.sparse.window, light.strategy.sparse.window);
}

TEST(ProtectionCostsTest, WithoutStorageNothingIsDurable) {
  ClusterSpec cluster = small_cluster(2);
  cluster.storage_bytes_per_second = 0;
  EXPECT_EQ(std::get<ProtectionRefused>(price_durable(small_job(), cluster, {})).reason,
            "there is no durable storage");
  EXPECT_EQ(price_fallback(small_job(), cluster, 2).every_steps, 0);
  EXPECT_GT(price_fallback(small_job(), small_cluster(2), 2).every_steps,
            price_fallback(small_job(), small_cluster(2), 1).every_steps);
}

// What all nodes share fails, too, and only durable saves are left then: the interval is the exact
// optimum for that.
TEST(ProtectionCostsTest, FailuresOfTheWholeJobAskForDurableSaves) {
  ClusterSpec cluster = small_cluster(0.5);
  cluster.failures.whole_job_node_seconds = 0;
  const MemoryLoss rare = memory_loss(small_job(), cluster, 2);
  EXPECT_EQ(rare.whole_job_mtbf_seconds, 0);
  cluster.failures.whole_job_node_seconds = 8 * 10 * kHour;
  const MemoryLoss loss = memory_loss(small_job(), cluster, 2);
  EXPECT_EQ(loss.whole_job_mtbf_seconds, 10 * kHour);
  EXPECT_EQ(loss.copies_mtbf_seconds, rare.copies_mtbf_seconds);
  const PeriodicSave save = price_fallback(small_job(), cluster, 2);
  EXPECT_NEAR(static_cast<double>(save.every_steps),
              best_interval_seconds({save.stall_seconds + 1e-3, loss.mtbf_seconds()}) / 10, 1);
  // No other interval does better under failures of the whole job alone.
  const auto ettr = [&](double steps) {
    const PeriodicSave other{static_cast<int64_t>(steps), save.stall_seconds,
                             save.durable_after_seconds};
    return dense_ettr(10, other, 0, 0, loss.mtbf_seconds());
  };
  const auto best = static_cast<double>(save.every_steps);
  for (const double times : {0.5, 0.8, 1.25, 2.0})
    EXPECT_LT(ettr(times * best), ettr(best)) << times;
  const auto priced = std::get<PricedProtection>(price_sparse(small_job(), cluster, {}));
  EXPECT_NE(priced.fallback_reason.find("the whole job every 10 h, all copies of a state every"),
            std::string::npos)
      << priced.fallback_reason;
}

TEST(ProtectionCostsTest, ADayBetweenDurableSavesIsSaid) {
  ClusterSpec cluster = small_cluster(2);
  cluster.failures.node_mtbf_seconds = 1e9;
  EXPECT_EQ(price_fallback(small_job(), cluster, 2).every_steps, 8640);
  const auto priced = std::get<PricedProtection>(price_peer_memory(small_job(), cluster, {}));
  EXPECT_NE(priced.fallback_reason.find("failures would allow longer, a day is the most"),
            std::string::npos)
      << priced.fallback_reason;
}

// The interval that the price names is the best: no other of the same price does better in
// simulation.
TEST(ProtectionCostsTest, PricedIntervalsAreTheBestOfAllSimulated) {
  const ClusterSpec cluster = small_cluster(0.5);
  const auto priced =
      std::get<PricedProtection>(price_durable(small_job(), cluster, {.stall_share_max = 1}));
  auto ettr = [&](int64_t every) {
    RunStrategy strategy = priced.strategy;
    strategy.save.every_steps = every;
    return dense_ettr(
        10, strategy.save, 0,
        strategy.recovery.detect + strategy.recovery.restart + strategy.recovery.load_durable,
        cluster.job_mtbf_seconds());
  };
  int64_t best = 1;
  for (int64_t every = 1; every < 200; ++every) {
    if (ettr(every) > ettr(best)) best = every;
  }
  EXPECT_NEAR(static_cast<double>(priced.strategy.save.every_steps), static_cast<double>(best), 1);
}

}  // namespace
}  // namespace evermoe
