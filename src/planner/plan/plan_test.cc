// Prices of protections, plans, forecasts and what-ifs.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "planner/failures/spare_demand.h"
#include "planner/plan/plan_testing.h"
#include "planner/plan/what_if.h"
#include "planner/report/amount_text.h"
#include "planner/report/plan_report.h"
#include "planner/simulate/closed_forms.h"
#include "planner/simulate/run_forecast.h"
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

TEST(PlanInputTest, WishesForTheLayoutAreChecked) {
  PlannedModel model = load_planned_model(real_files(), "deepseek-v3").value();
  EXPECT_TRUE(model.shape.latent.has_value());
  EXPECT_TRUE(
      apply_layout({.sequences = 15360, .tensor_parallel = 2, .recompute = "layer"}, model).ok());
  EXPECT_EQ(model.sequences, 15360);
  EXPECT_EQ(model.recompute, ActivationRecompute::kLayer);
  EXPECT_EQ(apply_layout({.recompute = "some"}, model).message(),
            "recompute: found \"some\", allowed: none, experts, layer, auto");
  PlannedModel configured = load_planned_model(real_files(), std::string(EVERMOE_SOURCE_DIR) +
                                                                 "/configs/mixtral-tiny.toml")
                                .value();
  EXPECT_EQ(apply_layout({.sequences = 5}, configured).message(),
            "sequences: found a configured batch as well, allowed: with a preset");
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

TEST(PlanInputTest, AModelIsAPresetOrAConfiguration) {
  const auto named = load_planned_model(real_files(), "mixtral-8x7b");
  ASSERT_TRUE(named.ok());
  EXPECT_FALSE(named->layout.has_value());
  const auto file = load_planned_model(
      real_files(), std::string(EVERMOE_SOURCE_DIR) + "/configs/mixtral-tiny.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->layout.has_value());
  EXPECT_EQ(load_planned_model(real_files(), "no-such").status().message().substr(0, 68),
            "model: found \"no-such\", allowed: a file ending in .toml, or one of g");
  EXPECT_EQ(load_planned_model(real_files(), "/no/such.toml").status().message(),
            "/no/such.toml: no such file, allowed: a job's configuration or the name of a preset");
}

TEST(PlanInputTest, AConfiguredLayoutMustFitTheCluster) {
  const auto file = load_planned_model(
      real_files(), std::string(EVERMOE_SOURCE_DIR) + "/configs/mixtral-tiny.toml");
  ASSERT_TRUE(file.ok());
  ClusterSpec cluster = default_cluster();
  cluster.nodes = 1000;
  const auto step = plan_step(*file, cluster);
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(exit_code(step.status()), 2);
  cluster.nodes = file->layout->gpus();
  cluster.gpus_per_node = 1;
  EXPECT_TRUE(plan_step(*file, cluster).ok());
}

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
    return forecast_run(model, {.strategy = ProtectionStrategy::kNone}, {.every_steps = 50},
                        cluster, {.replacement = replacement, .trace = &trace});
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

TEST(RunForecastTest, AsConfigured) {
  PlannedModel model = load_planned_model(real_files(), "gpt-moe-7.3b").value();
  ClusterSpec cluster = default_cluster();
  cluster.nodes = 4;
  cluster.spares = 1;
  ProtectionConfig protection{.strategy = ProtectionStrategy::kSparse,
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
  protection.strategy = ProtectionStrategy::kDense;
  protection.dense_every_steps = 7;
  EXPECT_EQ(forecast_run(model, protection, {}, cluster, {.simulated_runs = 2})
                ->priced.strategy.save.every_steps,
            7);
  protection.strategy = ProtectionStrategy::kNone;
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
  protection = {.strategy = ProtectionStrategy::kDense, .memory_budget = 1 << 20};
  EXPECT_EQ(forecast_run(model, protection, {}, cluster, {}).status().code(),
            NoCapacity("").code());
}

TEST(WhatIfTest, UpTo131072Gpus) {
  PlanInput input{.cluster = default_cluster()};
  input.cluster.failures.whole_job_node_seconds = 0;
  input.model = load_planned_model(real_files(), "mixtral-8x7b").value();
  input.budget.simulated_runs = 2;
  const std::vector<int> scales{8, 1024, 131072};
  const auto rows = what_if_scale(input, scales);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_NE((*rows)[0].refused.find("no layout fits"), std::string::npos);
  // Meta's 6.5 failures per 1000 node-days: 28.8 h and the "14 minutes".
  EXPECT_NEAR((*rows)[1].job_mtbf_seconds, 28.8 * kHour, 0.1 * kHour);
  EXPECT_NEAR((*rows)[2].job_mtbf_seconds, 13.52 * 60, 1);
  EXPECT_GT((*rows)[1].ettr.mean, (*rows)[2].ettr.mean);
  EXPECT_GT((*rows)[2].ettr.mean, 0.9);
  EXPECT_EQ((*rows)[2].spares_wanted, spares_needed(input.cluster.failures, 16384, 0, 0.99, 1000));
  EXPECT_NE(to_text(*rows).find("131072"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(*rows)).size(), 3u);
  EXPECT_FALSE(what_if_scale(input, std::vector<int>{12}).ok());
  EXPECT_EQ(usual_scales(16).front(), 64);
}

TEST(NumberTextTest, PeopleReadThreeDigits) {
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(95), "95 s");
  EXPECT_EQ(duration_text(811.2), "13.5 min");
  EXPECT_EQ(duration_text(2.4 * kDay), "2.4 days");
  EXPECT_EQ(bytes_text(7.79e9), "7.79 GB");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(count_text(4194304), "4.19 M");
  EXPECT_EQ(percent_text(0.9731), "97.31 %");
}

}  // namespace
}  // namespace evermoe
