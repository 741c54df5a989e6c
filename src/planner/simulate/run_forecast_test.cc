// Forecasts of a run as it is configured.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/plan/plan_input.h"
#include "planner/plan/plan_testing.h"
#include "planner/plan/planner_input.h"
#include "planner/report/plan_report.h"
#include "planner/simulate/run_forecast.h"

namespace evermoe {
namespace {

// Twelve nodes by name, but never more than three at once: the job would wait from the start to the
// end.
TEST(RunForecastTest, ATraceThatNeverHasEnoughNodesIsRefused) {
  using Kind = AvailabilityEvent::Kind;
  FailureTrace trace{.end_seconds = 20 * kHour};
  for (int node = 0; node < 12; ++node) trace.nodes.push_back(absl::StrCat("n", node));
  trace.up_at_start.assign(12, false);
  trace.up_at_start[0] = trace.up_at_start[1] = true;
  for (int node = 2; node < 12; ++node) {
    trace.events.push_back({node * kHour, Kind::kUp, {node}});
    trace.events.push_back({node * kHour + 60, Kind::kDown, {node}});
  }
  ClusterSpec cluster = default_cluster();
  const auto forecast = [&](int nodes, NodeReplacement replacement) {
    cluster.nodes = nodes;
    // Two stages, so that two nodes are the least on which it can go on.
    const std::vector<std::string> layout{
        "parallel.stages=2", absl::StrCat("parallel.lanes=", 4 * nodes),
        absl::StrCat("train.micro_batches=", 16 * nodes),
        absl::StrCat("parallel.expert_replicas=", nodes > 8 ? 4 : 1)};
    const PlannedModel model = load_planned_job(real_files(), "gpt-moe-7.3b", layout)->model;
    return forecast_run(model, {.strategy = StrategyKind::kNone}, {.every_steps = 50}, cluster,
                        {.replacement = replacement, .trace = &trace});
  };
  const auto refused = forecast(4, NodeReplacement::kStandby);
  EXPECT_EQ(exit_code(refused.status()), 2);
  EXPECT_EQ(refused.status().message(),
            "failure trace: never has enough nodes: the job needs 4 at once, the trace has at most "
            "3, first after 2 h of 20 h; "
            "allowed: a job on at most 3 nodes (cluster.nodes)");
  EXPECT_TRUE(forecast(4, NodeReplacement::kElastic).ok());
  EXPECT_NE(forecast(16, NodeReplacement::kElastic)
                .status()
                .message()
                .find("the job needs 8 at once even with fewer nodes, the trace has at most 3"),
            std::string::npos);
  const auto runs = forecast(3, NodeReplacement::kRestart);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_GT(runs->estimates.waiting_share.mean, 0.9);
}

// The share that is announced costs moves, of strategies that can move.
TEST(RunForecastTest, AnnouncedLossesAreMoves) {
  const PlannedModel model = load_planned_model(real_files(), "gpt-moe-7.3b").value();
  const auto forecast = [&](StrategyKind kind, double announced) {
    ClusterSpec cluster = default_cluster();
    cluster.nodes = 4;
    cluster.spares = 4;
    cluster.failures = {
        .node_mtbf_seconds = 20 * kHour, .repair_seconds = kHour, .announced_share = announced};
    return forecast_run(model, {.strategy = kind, .memory_budget = int64_t{64} << 30},
                        {.every_steps = 50}, cluster, {.simulated_runs = 4})
        .value();
  };
  const RunForecast lost = forecast(StrategyKind::kPeerMemory, 0),
                    told = forecast(StrategyKind::kPeerMemory, 1);
  EXPECT_EQ(lost.estimates.moves_per_day.mean, 0);
  EXPECT_GT(told.estimates.moves_per_day.mean, 3);
  EXPECT_LT(told.estimates.interruptions_per_day.mean, 0.2);
  EXPECT_LT(told.estimates.rework_share.mean, 0.1 * lost.estimates.rework_share.mean);
  EXPECT_LT(told.estimates.downtime_share.mean, 0.8 * lost.estimates.downtime_share.mean);
  EXPECT_EQ(told.priced.strategy.recovery.migrate,
            10 + 2 * told.priced.strategy.recovery.load_memory);
  EXPECT_NE(to_text(told).find(" moves\n"), std::string::npos) << to_text(told);
  EXPECT_NE(to_text(told).find("100 % of the nodes' that need repair announced"),
            std::string::npos);
  EXPECT_EQ(forecast(StrategyKind::kNone, 1).estimates.moves_per_day.mean, 0);
}

TEST(RunForecastTest, AsConfigured) {
  PlannedModel model = load_planned_model(real_files(), "gpt-moe-7.3b").value();
  ClusterSpec cluster = default_cluster();
  cluster.nodes = 4;
  cluster.spares = 1;
  ProtectionConfig protection{.strategy = StrategyKind::kSparse,
                              .copies = 1,
                              .memory_budget = int64_t{64} << 30,
                              .window = 4,
                              .copy_bandwidth = 25'000'000'000};
  const auto sparse =
      forecast_run(model, protection, {.every_steps = 500}, cluster, {.simulated_runs = 4});
  ASSERT_TRUE(sparse.ok()) << sparse.status();
  EXPECT_EQ(sparse->priced.strategy.sparse.window, 4);
  EXPECT_EQ(sparse->priced.strategy.fallback.every_steps, 500);
  EXPECT_NE(to_text(*sparse).find("sparse, standby"), std::string::npos) << to_text(*sparse);
  EXPECT_EQ(nlohmann::json::parse(to_json(*sparse))["strategy"]["window"], 4);
  protection.strategy = StrategyKind::kPeerMemory;
  protection.dense_every_steps = 7;
  EXPECT_EQ(forecast_run(model, protection, {}, cluster, {.simulated_runs = 2})
                ->priced.strategy.save.every_steps,
            7);
  // The same snapshots cost one stage less than everybody.
  const auto everybody = forecast_run(model, protection, {}, cluster, {.simulated_runs = 2});
  protection.strategy = StrategyKind::kDense;
  const auto stage = forecast_run(model, protection, {}, cluster, {.simulated_runs = 2});
  EXPECT_EQ(stage->priced.strategy.protection, StateProtection::kStageMemory);
  EXPECT_EQ(stage->priced.strategy.save, everybody->priced.strategy.save);
  EXPECT_GT(stage->estimates.ettr.mean, everybody->estimates.ettr.mean);
  protection.strategy = StrategyKind::kPartialExperts;
  protection.experts_in_memory = 3;
  EXPECT_EQ(forecast_run(model, protection, {.every_steps = 50}, cluster, {.simulated_runs = 2})
                ->priced.strategy.lossy.in_memory,
            3);
  protection.strategy = StrategyKind::kGradients;
  protection.base_every_steps = 5;
  const RunStrategy gradients =
      forecast_run(model, protection, {}, cluster, {.simulated_runs = 2})->priced.strategy;
  EXPECT_EQ(gradients.protection, StateProtection::kGradients);
  EXPECT_EQ(gradients.save.every_steps, 5);
  protection.strategy = StrategyKind::kNone;
  const RunStrategy rare =
      forecast_run(model, protection, {.every_steps = 900}, cluster, {.simulated_runs = 2})
          ->priced.strategy;
  EXPECT_EQ(rare.save.every_steps, 900);
  // Links that are busy less often slow steps less; a save is never begun before the last one has
  // arrived.
  const RunStrategy often =
      forecast_run(model, protection, {.every_steps = 1}, cluster, {.simulated_runs = 2})
          ->priced.strategy;
  EXPECT_LT(rare.step_overhead_share, 0.5 * often.step_overhead_share);
  EXPECT_EQ(often.save.every_steps,
            std::ceil(often.save.durable_after_seconds /
                      forecast_run(model, protection, {}, cluster, {.simulated_runs = 1})
                          ->step.profile.step_seconds));
  EXPECT_EQ(forecast_run(model, protection, {.every_steps = 0}, cluster, {.simulated_runs = 2})
                ->priced.strategy.name,
            "none");
  protection.strategy = StrategyKind::kCheckfreq;
  protection.overhead_budget = 1;
  const auto tuned = [&] {
    return forecast_run(model, protection, {.every_steps = 900}, cluster, {.simulated_runs = 2})
        ->priced.strategy.save.every_steps;
  };
  EXPECT_EQ(tuned(), often.save.every_steps);
  protection.overhead_budget = 1e-4;
  EXPECT_GT(tuned(), often.save.every_steps);
  protection = {.strategy = StrategyKind::kPeerMemory, .memory_budget = 1 << 20};
  EXPECT_EQ(forecast_run(model, protection, {}, cluster, {}).status().code(),
            NoCapacity("").code());
}

}  // namespace
}  // namespace evermoe
