// Settings of clusters and jobs, laws that fit traces, sweeps, and the page with plots.
#include "planner/plan/sweep.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "planner/cluster_model/measured_cluster.h"
#include "planner/failures/failure_trace.h"
#include "planner/plan/expert_plan.h"
#include "planner/plan/plan_testing.h"
#include "planner/report/html_report.h"
#include "planner/report/report_charts.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

std::string message_of(const absl::Status& status) {
  EXPECT_EQ(exit_code(status), 2);
  return std::string(status.message());
}

TEST(PlanningPageTest, ListsTheKeysOfAClusterWithTheirDefaults) {
  const std::string path = std::string(EVERMOE_SOURCE_DIR) + "/docs/planning.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str(), fence = "```toml\n";
  const size_t begin = page.rfind(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::string wanted = page.substr(0, begin) + fence + to_toml(default_cluster()) + "```\n";
  if (std::getenv("EVERMOE_WRITE_DOCS") != nullptr) std::ofstream(path) << wanted;
  EXPECT_EQ(page, wanted) << "EVERMOE_WRITE_DOCS=1 writes it";
}

TEST(MeasuredClusterTest, IsAClusterThatPlansRead) {
  const MeasuredMachine machine{.processors = 2,
                                .memory_bytes = 8'000'000'000,
                                .copy_bytes_per_second = 9e9,
                                .memory_bytes_per_second = 20e9,
                                .disk_write_bytes_per_second = 1e9,
                                .disk_read_bytes_per_second = 2e9,
                                .stream_bytes_per_second = 3e9,
                                .stream_latency_seconds = 12e-6,
                                .flops = 200e9};
  const auto cluster = parse_cluster(measured_toml(machine), "machine.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(*cluster, measured_cluster(machine));
  EXPECT_EQ(cluster->gpu.host_bytes_per_second, 9e9);
  EXPECT_EQ(cluster->gpu.flops, 200e9);
  EXPECT_EQ(cluster->durable_bytes_per_second(), 1e9);
  MeasuredMachine without = machine;
  without.flops.reset();
  EXPECT_NE(measured_toml(without).find("not measured (no torch in this build)"),
            std::string::npos);
  EXPECT_EQ(measured_cluster(without).gpu.flops, default_cluster().gpu.flops);
  EXPECT_TRUE(nlohmann::json::parse(to_json(without))["flops"].is_null());
}

TEST(ClusterSettingsTest, ChangeSingleKeys) {
  const auto cluster =
      changed(default_cluster(),
              {"cluster.nodes=12", "gpu.name=H100", "failures.node_mtbf_hours=2.5"}, "--set");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->nodes, 12);
  EXPECT_EQ(cluster->gpu.name, "H100");
  EXPECT_EQ(cluster->failures.node_mtbf_seconds, 9000);
}

TEST(ClusterSettingsTest, WrongOnesAreOneLine) {
  auto wrong = [](const std::string& setting) {
    return message_of(changed(default_cluster(), {setting}, "--set").status());
  };
  EXPECT_EQ(wrong("cluster.nodes"), "--set cluster.nodes: found no \"=\", allowed: key=value");
  EXPECT_EQ(
      wrong("cluster.nodes=1.5"),
      "--set cluster.nodes=1.5: cluster.nodes: found \"1.5\", allowed: integer from 1 to 1048576");
  EXPECT_EQ(
      wrong("cluster.nodes=x"),
      "--set cluster.nodes=x: cluster.nodes: found \"x\", allowed: integer from 1 to 1048576");
  EXPECT_EQ(wrong("cluster.racks=2"),
            "--set cluster.racks=2: cluster.racks: found 2, allowed: at most cluster.nodes (1)");
  EXPECT_EQ(wrong("cluster.node=3").substr(0, 60),
            "--set cluster.node=3: unknown key, allowed: gpu.name, cluste");
  EXPECT_NE(wrong("gpu.name=Z80").find("A100-80GB"), std::string::npos);
  EXPECT_EQ(wrong("failures.shape=nan"),
            "--set failures.shape=nan: failures.shape: found \"nan\", allowed: number x with 0.1 "
            "<= x <= 20");
}

// Four nodes for 100 s; one goes at 20 s and is back at 60 s; another crashes twice.
TEST(TraceFitTest, TheLawHasAsManyLossesAndAsManyMissingNodes) {
  using Kind = AvailabilityEvent::Kind;
  FailureTrace trace{
      .nodes = {"a", "b", "c", "d"}, .up_at_start = {true, true, true, true}, .end_seconds = 100};
  trace.events = {{20, Kind::kDown, {1}},
                  {30, Kind::kCrash, {2}},
                  {40, Kind::kCrash, {2}},
                  {60, Kind::kUp, {1}}};
  const FailureLaw law = fitted_law(trace);
  EXPECT_DOUBLE_EQ(law.node_mtbf_seconds, 360.0 / 3);
  EXPECT_DOUBLE_EQ(law.crash_share, 2.0 / 3);
  EXPECT_DOUBLE_EQ(law.repair_seconds, 40);
}

// What is drawn from a law and recorded looks like the law.
TEST(TraceFitTest, ALawIsFoundAgain) {
  const FailureLaw law{.node_mtbf_seconds = 10 * kDay, .repair_seconds = kDay, .crash_share = 0.25};
  const auto source = draw_availability(law, 100, 0, 7);
  FailureTrace trace{.nodes = std::vector<std::string>(100, "n"),
                     .up_at_start = std::vector<bool>(100, true),
                     .end_seconds = 1000 * kDay};
  while (const auto event = source->next()) {
    if (event->seconds > trace.end_seconds) break;
    trace.events.push_back(
        {event->seconds, event->kind, {event->nodes.begin(), event->nodes.end()}});
  }
  const FailureLaw fitted = fitted_law(trace);
  EXPECT_NEAR(fitted.node_mtbf_seconds, law.node_mtbf_seconds, 0.05 * law.node_mtbf_seconds);
  EXPECT_NEAR(fitted.crash_share, 0.25, 0.02);
  EXPECT_NEAR(fitted.repair_seconds, kDay, 0.05 * kDay);
}

TEST(TraceFitTest, RecordedTracesOfBothFormatsAreRead) {
  const std::string folder = std::string(EVERMOE_SOURCE_DIR) + "/data/planner/";
  const auto instances = load_failure_trace(real_files(), folder + "bamboo-ec2-p3.csv", 400);
  ASSERT_TRUE(instances.ok()) << instances.status();
  const auto faults =
      load_failure_trace(real_files(), folder + "infinitehbd-fault-events.csv", 400);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_EQ(faults->nodes.size(), 400u);
  // 584 faults of 400 servers in 348 days.
  EXPECT_NEAR(fitted_law(*faults).node_mtbf_seconds, 400 * 348 * kDay / 584,
              0.1 * 400 * 348 * kDay / 584);
  EXPECT_EQ(message_of(load_failure_trace(real_files(), "/no/such.csv", 1).status()),
            "/no/such.csv: no such file, allowed: a failure trace");
}

TEST(PlannedJobTest, SettingsChangeAPresetAndAConfiguration) {
  const auto job = load_planned_job(real_files(), "mixtral-8x7b",
                                    {"protection.strategy=sparse", "protection.window=4"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->protection.window, 4);
  EXPECT_EQ(job->model.precision, Precision::kBf16);
  EXPECT_FALSE(job->model.layout.has_value());
  // A preset has no limits but those of the cluster and those that are set.
  EXPECT_EQ(job->protection.memory_budget, 0);
  EXPECT_TRUE(forecast_run(job->model, job->protection, job->checkpoint,
                           changed(default_cluster(), {"cluster.nodes=8"}, "").value(),
                           {.simulated_runs = 1})
                  .ok());
  EXPECT_EQ(load_planned_job(real_files(), "mixtral-8x7b", {"protection.memory_budget=2GiB"})
                ->protection.memory_budget,
            int64_t{2} << 30);
  const auto placed =
      load_planned_job(real_files(), "mixtral-8x7b",
                       {"parallel.stages=4", "parallel.lanes=8", "train.micro_batches=64"});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->model.layout->lanes, std::vector<int>(4, 8));
  EXPECT_EQ(placed->model.sequences, 64 * 2);
  EXPECT_EQ(
      message_of(load_planned_job(real_files(), "mixtral-8x7b", {"protection.windw=6"}).status())
          .substr(0, 29),
      "--set protection.windw=6: pro");
}

TEST(ParseSweepTest, ListsAndDoublings) {
  EXPECT_EQ(parse_sweep("a.b=1,x,3")->values, (std::vector<std::string>{"1", "x", "3"}));
  EXPECT_EQ(parse_sweep("a.b=3..13")->values, (std::vector<std::string>{"3", "6", "12"}));
  EXPECT_EQ(parse_sweep("a.b=0.5..1")->values, (std::vector<std::string>{"0.5", "1"}));
  for (const char* text : {"", "a", "a=", "=1", "a=1,,2", "a=0..4", "a=4..1", "a=x..y", "a=1..inf",
                           "a=1e-320..1e300"}) {
    EXPECT_EQ(message_of(parse_sweep(text).status()).substr(0, 13), "sweep: found ") << text;
  }
}

absl::StatusOr<RunForecast> pretended(const std::vector<std::string>& settings) {
  if (settings.front() == "n=2") return NoCapacity("too small");
  if (settings.front() == "n=bad") return InvalidInput("no such thing");
  RunForecast run;
  run.model = settings.back();
  run.step.profile.step_seconds = 2;
  run.estimates.ettr = {.count = 4, .mean = 0.9, .low = 0.89, .high = 0.91};
  return run;
}

TEST(SweepTest, EveryCombinationOnceAndRefusalsArePoints) {
  const Sweep result = sweep({{"n", {"1", "2"}}, {"k", {"a", "b", "c"}}}, pretended).value();
  ASSERT_EQ(result.points.size(), 6u);
  EXPECT_EQ(result.points[2].forecast->model, "k=c");
  EXPECT_EQ(result.points[3].values, (std::vector<std::string>{"2", "a"}));
  EXPECT_EQ(result.points[3].refused, "too small");
  const auto json = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(json[2]["settings"], (nlohmann::json{{"n", "1"}, {"k", "c"}}));
  EXPECT_EQ(json[2]["forecast"]["estimates"]["ettr"]["mean"], 0.9);
  EXPECT_EQ(json[4]["refused"], "too small");
  EXPECT_NE(to_text(result).find("90.00 ± 1.00 %"), std::string::npos) << to_text(result);
  EXPECT_EQ(message_of(sweep({{"n", {"1", "bad"}}}, pretended).status()), "n=bad: no such thing");
  const std::vector<std::string> many(200, "1");
  EXPECT_EQ(message_of(sweep({{"n", many}, {"k", many}}, pretended).status()),
            "sweep: found 40000 points, allowed: at most 1000");
}

TEST(HtmlReportTest, ThePageHoldsEverythingAndTextsCannotLeaveTheirPlace) {
  const Sweep result = sweep({{"n", {"1", "2"}}, {"k", {"</script><b>"}}}, pretended).value();
  const std::string html = to_html(report_page("a <b>title</b>", result));
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("a &lt;b&gt;title"), std::string::npos);
  EXPECT_NE(html.find(std::string(chart_js())), std::string::npos);
  // Nothing is fetched: no element refers to anything outside.
  for (const char* reference : {"src=", "href=", "@import", "url("}) {
    const std::string own = html.substr(0, html.find(std::string(chart_js())));
    EXPECT_EQ(own.find(reference), std::string::npos) << reference;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

std::vector<nlohmann::json> plots_of(const ReportPage& page) {
  std::vector<nlohmann::json> plots;
  for (const ReportBlock& block : page.blocks) {
    if (const auto* chart = std::get_if<ReportChart>(&block))
      plots.push_back(nlohmann::json::parse(chart->config));
  }
  return plots;
}

TEST(HtmlReportTest, RefusedPointsAreGaps) {
  const auto plots = plots_of(report_page("t", sweep({{"n", {"1", "2"}}}, pretended).value()));
  ASSERT_EQ(plots.size(), 2u);
  const auto& datasets = plots[0]["data"]["datasets"];
  ASSERT_EQ(datasets.size(), 3u);  // mean and both ends of its interval
  EXPECT_DOUBLE_EQ(datasets[0]["data"][0].get<double>(), 90);
  EXPECT_DOUBLE_EQ(datasets[2]["data"][0].get<double>(), 91);
  EXPECT_TRUE(datasets[0]["data"][1].is_null());
}

TEST(HtmlReportTest, WordsAreBarsAndNumbersAreLines) {
  EXPECT_EQ(plots_of(report_page("t", sweep({{"n", {"1", "3"}}}, pretended).value()))[0]["type"],
            "line");
  EXPECT_EQ(
      plots_of(report_page(
          "t",
          sweep({{"protection.strategy", {"dense", "sparse"}}}, pretended).value()))[0]["type"],
      "bar");
}

TEST(HtmlReportTest, AxesHaveUnits) {
  EXPECT_EQ(axis_text("failures.node_mtbf_hours"), "failures.node_mtbf_hours (hours)");
  EXPECT_EQ(axis_text("links.nic_gb_per_second"), "links.nic_gb_per_second (GB/s)");
  EXPECT_EQ(axis_text("protection.strategy"), "protection.strategy");
  for (const auto& plot :
       plots_of(report_page("t", sweep({{"cluster.nodes", {"1", "3"}}}, pretended).value()))) {
    EXPECT_EQ(plot["options"]["scales"]["x"]["title"]["text"], "cluster.nodes (nodes)");
    EXPECT_NE(
        plot["options"]["scales"]["y"]["title"]["text"].get<std::string>().find("% of wall time"),
        std::string::npos);
  }
}

// The causes are all of the time, in the runs of a real plan.
TEST(TimeSharesTest, TheyAddUpToOne) {
  const ProtectionPlan plan = planned(small_job(), small_cluster(2));
  double sum = 0;
  for (const TimeCause& cause : time_causes()) sum += cause.share(plan.best.estimates);
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(WhatIfTest, ARiseWithTheSizeIsExplained) {
  ScaleRow small{.gpus = 64,
                 .nodes = 8,
                 .strategy = "durable, restart",
                 .ettr = {.mean = 0.9, .low = 0.89, .high = 0.91}};
  ScaleRow large{.gpus = 512,
                 .nodes = 64,
                 .strategy = "sparse, standby, 2 spares",
                 .ettr = {.mean = 0.95, .low = 0.94, .high = 0.96},
                 .spares = 2};
  small.estimates.rework_share.mean = 0.08;
  large.estimates.rework_share.mean = 0.01;
  const std::vector<ScaleRow> rows{small, large};
  const auto why = explain_rises(rows);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0],
            "From 64 to 512 GPUs the ETTR rises from 90.00 % to 95.00 %: the most is saved on lost "
            "work (8.00 % to 1.00 %), because another plan is "
            "the best: sparse, standby, 2 spares instead of durable, restart. Idle spares are 3.03 "
            "% of all nodes (0.00 % before), which the ETTR does "
            "not count.");
  EXPECT_NE(to_text(rows).find("The batch grows with the GPUs"), std::string::npos);
  EXPECT_TRUE(explain_rises(std::vector<ScaleRow>{large, small}).empty());
}

TEST(ExpertPlanTest, ReplicasOverTheNodesOfAStage) {
  // 8 nodes of 8 lanes in one stage, 8 experts with 8 replicas: each node has each expert.
  const ExpertPlan everywhere =
      plan_experts({.lanes_per_node = 8, .experts = 8}, {.lanes = {64}, .expert_replicas = 8});
  EXPECT_EQ(everywhere.slots, 8);
  EXPECT_EQ(everywhere.distinct_least, 8);
  EXPECT_EQ(everywhere.survives_next, 0);
  // 4 nodes, 16 experts twice: 8 slots, two groups of two nodes each; of 6 pairs of nodes 2 lose a
  // group.
  const ExpertPlan twice =
      plan_experts({.lanes_per_node = 1, .experts = 16}, {.lanes = {4, 4}, .expert_replicas = 2});
  EXPECT_EQ(twice.distinct_least, 2);
  EXPECT_NEAR(twice.survives_next, 4.0 / 6, 1e-12);
  EXPECT_NE(twice.reason.find("every expert survives any failed node of a stage; after 2 failed "
                              "nodes all experts are still there with probability 0.6667"),
            std::string::npos);
  EXPECT_EQ(plan_experts({.lanes_per_node = 8, .experts = 8}, {.lanes = {4}}).distinct_least, 1);
}

}  // namespace
}  // namespace evermoe
