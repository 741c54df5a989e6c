// Plans: which protection is best for a job and a cluster, and what is reported of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/failures/spare_demand.h"
#include "planner/plan/plan_testing.h"
#include "planner/plan/planner_input.h"
#include "planner/report/plan_report.h"
#include "planner/simulate/closed_forms.h"

namespace evermoe {
namespace {

// The default is Llama 3's: 35 switches and cables in 54 days on 2,048 nodes.
TEST(PlanTest, FailuresOfTheWholeJobAreReported) {
  PlanInput input{.cluster = default_cluster()};
  input.cluster.nodes = 2048;
  EXPECT_NEAR(input.cluster.whole_job_mtbf_seconds(), 54 * kDay / 35, 1);
  input.cluster.nodes = 16;
  input.budget.simulated_runs = 1;
  input.model = load_planned_model(real_files(), "qwen1.5-moe-a2.7b").value();
  const auto plan = plan_protection(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_NE(to_text(*plan).find(", of the whole job at once every 197 days"), std::string::npos)
      << to_text(*plan);
  EXPECT_NEAR(nlohmann::json::parse(to_json(*plan))["whole_job_mtbf_seconds"].get<double>(),
              128 * 54 * kDay / 35, 100);
}

TEST(PlanTest, WhatTheRuntimeCannotTrainIsAForecastOnly) {
  PlanInput input{.cluster = default_cluster()};
  input.cluster.nodes = 4;
  input.budget.simulated_runs = 1;
  input.model = load_planned_model(real_files(), "qwen1.5-moe-a2.7b").value();
  input.model.tensor_parallel = 2;
  const auto plan = plan_protection(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->today.has_value());
  EXPECT_NE(to_text(*plan).find("each of 2 GPUs (tensor parallel)"), std::string::npos);
  EXPECT_NE(to_text(*plan).find("today's runtime has no tensor parallelism"), std::string::npos)
      << to_text(*plan);
  EXPECT_NE(to_text(*plan).find("(chosen: about 8192 tokens for each GPU, so that it grows with "
                                "the cluster; --sequences fixes it)"),
            std::string::npos);
}

TEST(PlanTest, SlowLinksAskForSparseWindows) {
  const ProtectionPlan plan = planned(small_job(), small_cluster(0.5), {.stall_share_max = 2});
  EXPECT_EQ(plan.best.priced.strategy.protection, StateProtection::kSparse);
  EXPECT_EQ(plan.best.priced.strategy.sparse.window, 3);
  for (const PlanCandidate& other : plan.others) EXPECT_LE(other.score, plan.best.score);
  // And what it expects is what the exact law says of it.
  const RunStrategy& strategy = plan.best.priced.strategy;
  const double fixed =
      strategy.recovery.detect + strategy.recovery.restart + strategy.recovery.load_memory;
  const double exact = sparse_ettr(trained_job(small_job(), plan.cluster), strategy.sparse,
                                   strategy.step_overhead_share, fixed, plan.job_mtbf_seconds, 1);
  EXPECT_NEAR(plan.best.estimates.ettr.mean, exact, 5 * plan.best.estimates.ettr.error + 0.002);
}

TEST(PlanTest, NodesThatNeedRepairAskForSpares) {
  ClusterSpec cluster = small_cluster(2);
  cluster.failures = {.node_mtbf_seconds = 40 * kDay, .repair_seconds = 2 * kDay};
  const ProtectionPlan plan = planned(small_job(), cluster, {.elastic = false});
  EXPECT_EQ(plan.spares_wanted, spares_needed(cluster.failures, 8, 0, 0.99, 100));
  EXPECT_GE(plan.best.spares, 1);
  EXPECT_NEAR(plan.spares_suffice, at_least_up(8 + plan.best.spares, 8, 40.0 / 42), 1e-12);
  const ProtectionPlan poor = planned(small_job(), cluster, {.spares_max = 0, .elastic = false});
  EXPECT_EQ(poor.best.spares, 0);
  EXPECT_LT(poor.best.score, plan.best.score);
}

// Racks take whole groups of nodes: spares for single nodes alone would leave the job waiting most
// of the time.
TEST(PlanTest, RackFailuresAskForMoreSpares) {
  ClusterSpec cluster = small_cluster(2);
  cluster.racks = 4;
  cluster.failures = {.node_mtbf_seconds = 40 * kDay,
                      .repair_seconds = kDay,
                      .rack_mtbf_seconds = 10 * kDay,
                      .rack_repair_seconds = kDay};
  ClusterSpec without = cluster;
  without.failures.rack_mtbf_seconds = 0;
  const ProtectionPlan plan =
      planned(small_job(), cluster, {.elastic = false, .simulated_runs = 16});
  const ProtectionPlan light = planned(small_job(), without, {.elastic = false});
  EXPECT_GE(plan.spares_wanted, light.spares_wanted + 2);
  EXPECT_EQ(plan.spares_wanted, spares_needed(cluster.failures, 8, 4, 0.99, 100));
  EXPECT_GT(plan.best.spares, light.best.spares);
  EXPECT_GT(plan.best.estimates.ettr.mean, 0.75);
  // The probability that is printed is the share of the time that a job with so many spares does
  // not wait.
  std::vector<PlanCandidate> all = plan.others;
  all.push_back(plan.best);
  int compared = 0;
  for (const PlanCandidate& candidate : all) {
    if (candidate.priced.strategy.replacement == NodeReplacement::kElastic) continue;
    const double down_too_many =
        1 - at_most_down(cluster.failures, 8 + candidate.spares, 4, candidate.spares);
    EXPECT_NEAR(candidate.estimates.waiting_share.mean, down_too_many, 0.03)
        << candidate.priced.strategy.name;
    ++compared;
  }
  EXPECT_GT(compared, 5);
}

TEST(PlanTest, RacksThatAreDownTooOftenAreNamed) {
  ClusterSpec cluster = small_cluster(2);
  cluster.racks = 1;
  cluster.failures = {.node_mtbf_seconds = 400 * kDay,
                      .repair_seconds = kDay,
                      .rack_mtbf_seconds = 10 * kDay,
                      .rack_repair_seconds = kDay};
  const ProtectionPlan plan = planned(small_job(), cluster, {.simulated_runs = 2});
  const auto named =
      std::find_if(plan.refused.begin(), plan.refused.end(),
                   [](const auto& refused) { return refused.name == "enough spares"; });
  ASSERT_NE(named, plan.refused.end());
  EXPECT_EQ(
      named->reason,
      "not even 16 make up for all failed nodes 99 % of the time: whole racks are down too often");
}

TEST(PlanTest, ElasticNeedsTwoNodesForAStage) {
  ClusterSpec cluster = small_cluster(2);
  cluster.failures = {.node_mtbf_seconds = 40 * kDay, .repair_seconds = 2 * kDay};
  bool simulated = false;
  for (const PlanCandidate& other : planned(small_job(), cluster).others)
    simulated |= other.priced.strategy.replacement == NodeReplacement::kElastic;
  EXPECT_TRUE(simulated || planned(small_job(), cluster).best.priced.strategy.replacement ==
                               NodeReplacement::kElastic);
  JobProfile narrow = small_job();
  narrow.stages = 8;
  narrow.lanes.assign(8, 1);
  const ProtectionPlan plan = planned(narrow, cluster);
  ASSERT_FALSE(plan.refused.empty());
  EXPECT_EQ(plan.refused.back().name, "elastic");
}

TEST(PlanTest, LossyOnlyIfTokensMayBeLost) {
  ClusterSpec cluster = small_cluster(0.5);
  cluster.storage_bytes_per_second = 50e9;
  cluster.disk_bytes_per_second = 0;
  const ProtectionPlan exact = planned(small_job(), cluster);
  EXPECT_FALSE(exact.best.is_lossy());
  EXPECT_TRUE(std::any_of(exact.refused.begin(), exact.refused.end(),
                          [](const auto& refused) { return refused.name == "partial experts"; }));
  const ProtectionPlan lossy = planned(
      small_job(), cluster, {.stall_share_max = 2, .lost_share_max = 0.2, .elastic = false});
  const auto& partial = lossy.best.is_lossy()
                            ? lossy.best
                            : *std::find_if(lossy.others.begin(), lossy.others.end(),
                                            [](const auto& c) { return c.is_lossy(); });
  EXPECT_GT(partial.estimates.lost_share.mean, 0);
  EXPECT_LT(partial.estimates.lost_share.mean, 0.2);
  EXPECT_LT(partial.priced.strategy.lossy.saved, 10);
}

TEST(PlanTest, NothingPossibleSaysWhyEachIsNot) {
  const auto plan = plan_protection("small", {.lanes = {2, 2, 2, 2}}, {.profile = small_job()},
                                    small_cluster(2), {.host_bytes_per_gpu = 1e9});
  ASSERT_FALSE(plan.ok());
  const std::string why(plan.status().message());
  for (const char* name : {"sparse", "peer memory needs 40.0 GB", "durable needs 20.0 GB",
                           "partial experts loses tokens", "live replicas not every state"}) {
    EXPECT_NE(why.find(name), std::string::npos) << why;
  }
  EXPECT_EQ(plan_protection("x", {}, {.profile = small_job()}, small_cluster(2), {.copies = 9})
                .status()
                .message(),
            "budget: copies: found 9, allowed: 1 to 8");
}

TEST(PlanTest, WholePlansOfPresetsAreDeterministic) {
  PlanInput input{.cluster = default_cluster()};
  input.cluster.nodes = 16;
  input.model = load_planned_model(real_files(), "qwen1.5-moe-a2.7b").value();
  const auto plan = plan_protection(input), again = plan_protection(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(to_json(*plan), to_json(*again));
  EXPECT_LT(plan->step.profile.gpu_bytes(), 80e9);
  EXPECT_GT(plan->best.estimates.ettr.mean, 0.8);
}

}  // namespace
}  // namespace evermoe
