// What plans say to people, to programs and to a job's configuration.
#include "planner/report/plan_report.h"

#include <nlohmann/json.hpp>
#include <string>

#include "config/job_config.h"
#include "planner/plan/plan_testing.h"

namespace evermoe {
namespace {

TEST(PlanReportTest, TextSaysWhatWasChosenAgainstWhatAndWhy) {
  const ProtectionPlan plan = planned(small_job(), small_cluster(0.5), {.stall_share_max = 2});
  const std::string text = to_text(plan);
  for (const char* part :
       {"small on 8 nodes of 1 A100-80GB", "best: sparse", "window        3 steps",
        "copies        2, on other nodes", "ETTR", "tokens/s", "also simulated",
        "* peer memory, restart", "recovery", "not possible: partial experts: loses tokens"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(PlanReportTest, JsonHasTheNumbers) {
  const ProtectionPlan plan = planned(small_job(), small_cluster(0.5), {.stall_share_max = 2});
  const auto json = nlohmann::json::parse(to_json(plan));
  EXPECT_EQ(json["best"]["strategy"]["window"], 3);
  EXPECT_EQ(json["best"]["estimates"]["ettr"]["mean"], plan.best.estimates.ettr.mean);
  EXPECT_EQ(json["others"].size(), plan.others.size());
  EXPECT_EQ(json["refused"].size(), plan.refused.size());
  EXPECT_EQ(json["best"]["runs_today"], true);
  EXPECT_EQ(json["today"], json["best"]);
  EXPECT_EQ(json["job"]["step_seconds"], 10);
}

TEST(PlanReportTest, TomlIsAConfigurationThatReadsBack) {
  ClusterSpec cluster = small_cluster(0.5);
  cluster.racks = 4;
  cluster.failures = {
      .node_mtbf_seconds = 10 * kDay, .repair_seconds = kDay, .rack_mtbf_seconds = 1000 * kDay};
  const ProtectionPlan plan =
      planned(small_job(), cluster, {.stall_share_max = 2, .elastic = false});
  const auto config = parse_config(to_toml(plan), "plan", "/", {});
  ASSERT_TRUE(config.ok()) << config.status() << "\n" << to_toml(plan);
  ASSERT_TRUE(plan.today.has_value());
  const RunStrategy& strategy = plan.today->priced.strategy;
  EXPECT_EQ(config->protection.strategy, StrategyKind::kSparse);
  EXPECT_EQ(config->protection.window, strategy.sparse.window);
  EXPECT_EQ(config->protection.copies, strategy.copies);
  EXPECT_EQ(config->protection.failure_domain, FailureDomain::kRack);
  EXPECT_GE(static_cast<double>(config->protection.memory_budget),
            plan.today->priced.host_bytes_per_gpu);
  EXPECT_EQ(config->checkpoint.every_steps, strategy.fallback.every_steps);
  EXPECT_EQ(config->run.nodes, 8);
  EXPECT_EQ(config->run.racks, 4);
  EXPECT_EQ(config->run.spares, plan.today->spares);
  EXPECT_GT(plan.today->spares, 0);
  EXPECT_NEAR(config->protection.mtbf_seconds, plan.job_mtbf_seconds, 1e-6);
}

// What wins may be a forecast: what is pasted runs.
TEST(PlanReportTest, TomlIsOfTheBestThatRunsToday) {
  ClusterSpec cluster = small_cluster(0.5);
  cluster.capture_overhead_share = 0.05;
  const ProtectionPlan plan = planned(small_job(), cluster, {.stall_share_max = 5}, 2);
  ASSERT_EQ(plan.best.priced.strategy.protection, StateProtection::kReplicas);
  ASSERT_EQ(plan.today->priced.strategy.protection, StateProtection::kSparse);
  const std::string toml = to_toml(plan), text = to_text(plan);
  EXPECT_NE(toml.find("a forecast only: today's runtime has no "), std::string::npos) << toml;
  EXPECT_NE(toml.find("the best that runs today"), std::string::npos) << toml;
  EXPECT_NE(text.find("a forecast only, today's runtime has no "), std::string::npos) << text;
  const auto config = parse_config(toml, "plan", "/", {});
  ASSERT_TRUE(config.ok()) << config.status() << "\n" << toml;
  EXPECT_EQ(config->protection.strategy, StrategyKind::kSparse);
  EXPECT_EQ(config->protection.window, plan.today->priced.strategy.sparse.window);
  EXPECT_EQ(config->run.spares, plan.today->spares);
}

// What is pasted asks for the replacement that was simulated.
TEST(PlanReportTest, TomlHasStandbysOrIsElastic) {
  ClusterSpec cluster = small_cluster(2);
  cluster.failures = {.node_mtbf_seconds = 40 * kDay, .repair_seconds = 2 * kDay};
  const auto pasted = [&](const PlanBudget& budget, NodeReplacement expected) {
    const ProtectionPlan plan = planned(small_job(), cluster, budget);
    EXPECT_EQ(plan.today->priced.strategy.replacement, expected);
    const auto config = parse_config(to_toml(plan), "plan", "/", {});
    EXPECT_TRUE(config.ok()) << config.status() << "\n" << to_toml(plan);
    return *config;
  };
  const JobConfig warm = pasted({.elastic = false}, NodeReplacement::kStandby);
  EXPECT_EQ(warm.run.standbys, warm.run.spares) << "a node plays one role";
  EXPECT_FALSE(warm.elastic.enabled);
  const JobConfig elastic = pasted({.spares_max = 0}, NodeReplacement::kElastic);
  EXPECT_TRUE(elastic.elastic.enabled);
  EXPECT_EQ(elastic.elastic.min_nodes, 4);
  EXPECT_EQ(elastic.run.standbys, 0);
}

// Durable saves alone are "none" to the runtime, with saves as often as planned.
TEST(PlanReportTest, TomlOfDurableSaves) {
  ClusterSpec cluster = small_cluster(2);
  cluster.storage_bytes_per_second = 100e9;
  cluster.disk_bytes_per_second = 0;
  const ProtectionPlan plan =
      planned(small_job(), cluster, {.host_bytes_per_gpu = 25e9, .window = 1});
  ASSERT_TRUE(plan.today.has_value());
  ASSERT_EQ(plan.today->priced.strategy.protection, StateProtection::kDurable);
  const auto config = parse_config(to_toml(plan), "plan", "/", {});
  ASSERT_TRUE(config.ok()) << config.status() << "\n" << to_toml(plan);
  EXPECT_EQ(config->protection.strategy, StrategyKind::kNone);
  EXPECT_EQ(config->checkpoint.every_steps, plan.today->priced.strategy.save.every_steps);
  EXPECT_GT(config->checkpoint.every_steps, 0);
}

TEST(PlanReportTest, MoreNodesThanTheRuntimeSimulatesAreNotPasted) {
  JobProfile job = small_job();
  job.lanes.assign(4, 1250);
  job.nodes = 5000;
  ClusterSpec cluster = small_cluster(2);
  cluster.nodes = 5000;
  const ProtectionPlan plan = planned(job, cluster, {.stall_share_max = 2, .simulated_runs = 1});
  const std::string toml = to_toml(plan);
  EXPECT_TRUE(parse_config(toml, "plan", "/", {}).ok()) << toml;
  EXPECT_NE(toml.find("# [run] has no room for 5000 nodes"), std::string::npos) << toml;
}

}  // namespace
}  // namespace evermoe
