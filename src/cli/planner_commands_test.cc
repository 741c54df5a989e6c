// plan, forecast and profile in the real binary: what they print, and what wrong input gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_binary_testing.h"
#include "config/job_config.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kCluster = EVERMOE_SOURCE_DIR "/examples/clusters/a100-12x8.toml";
const std::string kTrace = EVERMOE_SOURCE_DIR "/data/planner/infinitehbd-fault-events.csv";

class PlannerCommandsTest : public BinaryTest {};

TEST_F(PlannerCommandsTest, PlanSaysWhatAndWhy) {
  const std::string text = printed({"plan", "gpt-moe-7.3b", kCluster, "--runs", "2"});
  for (const char* part :
       {"gpt-moe-7.3b on 12 nodes of 8 A100-80GB", "best: ", "ETTR", "host memory", "spares",
        "experts", "why", "also simulated", "* none, restart"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(PlannerCommandsTest, PlanAsJsonAndTomlSayTheSame) {
  const std::vector<std::string> plan = {
      "plan",
      "gpt-moe-7.3b",
      kCluster,
      "--runs",
      "2",
      "--failures",
      "node_mtbf_hours=24,repair_hours=1,whole_job_node_hours=0"};
  auto with = [&](const char* flag) {
    std::vector<std::string> arguments = plan;
    arguments.push_back(flag);
    return printed(arguments);
  };
  const Json json = Json::parse(with("--json"));
  EXPECT_EQ(json["job_mtbf_seconds"], 2 * 3600.0);
  const Json& today = json["today"];
  EXPECT_EQ(today["runs_today"], true);
  EXPECT_EQ(today["strategy"]["copies"], 2);
  const auto config = parse_config(with("--toml"), "plan", "/", {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->protection.copies, 2);
  EXPECT_EQ(config->protection.mtbf_seconds, 2 * 3600.0);
  EXPECT_EQ(config->run.nodes, 12);
  EXPECT_EQ(config->run.spares, today["spares"]);  // nodes, as the runtime counts them
  EXPECT_GT(config->run.spares, 0);
  // And it stands in a job's file.
  const std::string job = TestFolder::read(EVERMOE_SOURCE_DIR "/configs/mixtral-tiny.toml");
  const std::string text = job.substr(0, job.find("[checkpoint]")) + with("--toml");
  EXPECT_TRUE(parse_config(text, "job", EVERMOE_SOURCE_DIR "/configs", {}).ok())
      << parse_config(text, "job", "/", {}).status();
}

TEST_F(PlannerCommandsTest, APlanSaysHowOftenToSaveToEachTier) {
  const std::vector<std::string> plan = {"plan", "gpt-moe-7.3b", kCluster, "--runs", "1"};
  auto with = [&](const char* flag) {
    std::vector<std::string> arguments = plan;
    arguments.push_back(flag);
    return printed(arguments);
  };
  EXPECT_THAT(printed(plan), ::testing::Not(HasSubstr("by tier")));
  const std::string text = with("--tiers");
  EXPECT_THAT(text, HasSubstr("\nsaves of the whole state, by tier ("));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n  peer memory +every [0-9]+ steps"));
  const Json tiers = Json::parse(with("--json"))["saves_by_tier"]["tiers"];
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0]["name"], "peer memory");
  EXPECT_EQ(tiers[1]["name"], "durable storage");
  EXPECT_GT(tiers[1]["work_seconds"], tiers[0]["work_seconds"]);
}

TEST_F(PlannerCommandsTest, APlanMeetsItsOptions) {
  const Json windowed =
      Json::parse(printed({"plan", "gpt-moe-7.3b", kCluster, "--runs", "2", "--json", "--window",
                           "5", "--copies", "1", "--rigid"}));
  for (const Json& other : windowed["others"]) {
    EXPECT_NE(other["strategy"]["replacement"], "elastic");
    if (other["strategy"]["protection"] == "sparse") {
      EXPECT_EQ(other["strategy"]["window"], 5);
    }
  }
  EXPECT_EQ(Json::parse(printed({"plan", "gpt-moe-7.3b", kCluster, "--runs", "2", "--json",
                                 "--spares-max", "0"}))["best"]["spares"],
            0);
  EXPECT_EQ(run({"plan", "gpt-moe-7.3b", kCluster, "--host-memory-gb", "0.001"}).code,
            1);  // nothing fits: no fault of the input's form
}

TEST_F(PlannerCommandsTest, ForecastIsTheConfiguredProtection) {
  const std::vector<std::string> sparse = {"forecast",
                                           "gpt-moe-7.3b",
                                           kCluster,
                                           "--runs",
                                           "2",
                                           "--set",
                                           "protection.strategy=sparse",
                                           "--set",
                                           "protection.memory_budget=64GiB",
                                           "--set",
                                           "protection.window=4",
                                           "--set",
                                           "protection.copy_bandwidth=20GiB",
                                           "--json"};
  const std::string first = printed(sparse);
  EXPECT_EQ(Json::parse(first)["strategy"]["window"], 4);
  EXPECT_EQ(first, printed(sparse));
  EXPECT_THAT(
      printed({"forecast", "gpt-moe-7.3b", "A100-80GB", "--runs", "2", "--set", "cluster.nodes=4"}),
      HasSubstr("gpt-moe-7.3b on 4 nodes of 8 A100-80GB"));
  EXPECT_EQ(Json::parse(printed({"forecast", "gpt-moe-7.3b", kCluster, "--runs", "1", "--json",
                                 "--set", "protection.strategy=none", "--set",
                                 "checkpoint.every_steps=0"}))["strategy"]["name"],
            "none");
}

TEST_F(PlannerCommandsTest, MoreFailuresMakeLessOfTheTimeTraining) {
  const Json points = Json::parse(
      printed({"forecast", "gpt-moe-7.3b", kCluster, "--runs", "2", "--json", "--set",
               "protection.strategy=none", "--sweep", "failures.node_mtbf_hours=20,200,2000",
               "--sweep", "checkpoint.every_steps=50,500"}));
  ASSERT_EQ(points.size(), 6u);
  EXPECT_EQ(points[3]["settings"],
            (Json{{"failures.node_mtbf_hours", "200"}, {"checkpoint.every_steps", "500"}}));
  auto ettr = [&](int i) {
    return points[static_cast<size_t>(i)]["forecast"]["estimates"]["ettr"]["mean"].get<double>();
  };
  EXPECT_LT(ettr(0), ettr(2));
  EXPECT_LT(ettr(2), ettr(4));
}

TEST_F(PlannerCommandsTest, ARecordedTraceIsPlayedOnce) {
  const Json run =
      Json::parse(printed({"forecast", "gpt-moe-7.3b", kCluster, "--failures", kTrace, "--json"}));
  EXPECT_EQ(run["estimates"]["ettr"]["runs"], 1);
  EXPECT_NEAR(run["simulated_seconds"].get<double>(), 348 * 86400.0, 2 * 86400.0);
  EXPECT_GT(Json::parse(printed({"plan", "gpt-moe-7.3b", kCluster, "--failures", kTrace, "--json",
                                 "--runs", "1"}))["job_mtbf_seconds"],
            86400);
}

TEST_F(PlannerCommandsTest, WhatIfScalesTo131072Gpus) {
  const Json rows =
      Json::parse(printed({"forecast", "mixtral-8x7b", kCluster, "--scale", "1024,131072", "--runs",
                           "1", "--json", "--set", "failures.whole_job_node_hours=0"}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["gpus"], 131072);
  EXPECT_NEAR(rows[1]["job_mtbf_seconds"].get<double>(), 13.52 * 60, 1);
  EXPECT_GT(rows[1]["spares"], 0);
}

TEST_F(PlannerCommandsTest, AReportIsOnePage) {
  const std::string page = folder_.path("report.html");
  printed({"forecast", "gpt-moe-7.3b", kCluster, "--runs", "2", "--sweep", "cluster.nodes=6,12",
           "--report", page});
  const std::string html = TestFolder::read(page);
  EXPECT_THAT(html, StartsWith("<!doctype html>"));
  EXPECT_THAT(html, HasSubstr("plot1"));
  EXPECT_EQ(refusal({"forecast", "gpt-moe-7.3b", kCluster, "--runs", "1", "--report",
                     folder_.path("none/x.html")}),
            "evermoe: --report: found \"D/none/x.html\", allowed: a file in a folder that exists");
  EXPECT_THAT(
      refusal({"forecast", "gpt-moe-7.3b", kCluster, "--runs", "1", "--report", folder_.root()}),
      StartsWith("evermoe: --report: found "));
  EXPECT_THAT(refusal({"profile", "--out", folder_.path("none/x.toml")}),
              StartsWith("evermoe: --out: found "));
}

TEST_F(PlannerCommandsTest, DeepSeekV3FitsItsOwnCluster) {
  const Json json = Json::parse(
      printed({"plan", "deepseek-v3", "H800", "--set", "cluster.nodes=256", "--set",
               "links.nic_gb_per_second=400", "--sequences", "15360", "--runs", "1", "--json"}));
  EXPECT_EQ(json["gpus"], 2048);
  EXPECT_EQ(json["job"]["tensor_parallel"], 1);
  EXPECT_NE(json["job"]["recompute"], "none");
  EXPECT_LT(json["job"]["gpu_bytes"].get<double>(), 80e9);
  EXPECT_EQ(json["today"], nullptr);
  EXPECT_THAT(refusal({"inspect", "--config",
                       folder_.write("v3.toml", "[model]\npreset = \"deepseek-v3\"\n")}),
              HasSubstr("model.preset: found \"deepseek-v3\", allowed: "));
}

TEST_F(PlannerCommandsTest, ATraceThatNeverHasEnoughNodesIsOneLine) {
  EXPECT_EQ(refusal({"forecast", "gpt-moe-7.3b", "H100", "--set", "cluster.nodes=40", "--failures",
                     EVERMOE_SOURCE_DIR "/data/planner/bamboo-ec2-p3.csv"}),
            "evermoe: failure trace: never has enough nodes: the job needs 40 at once, the trace "
            "has at most 32, first after 25 min of 11.4 h; allowed: "
            "a job on at most 32 nodes (cluster.nodes)");
}

TEST_F(PlannerCommandsTest, APlanAsAPage) {
  const std::string page = folder_.path("plan.html");
  printed({"plan", "gpt-moe-7.3b", kCluster, "--runs", "1", "--report", page});
  EXPECT_THAT(TestFolder::read(page), HasSubstr("All candidates"));
}

TEST_F(PlannerCommandsTest, AMeasuredMachineIsACluster) {
  const std::string file = folder_.path("machine.toml");
  EXPECT_EQ(printed({"profile", "--directory", folder_.root(), "--disk-mib", "4", "--stream-mib",
                     "16", "--out", file}),
            "");
  EXPECT_THAT(TestFolder::read(file),
              StartsWith("# Measured by `evermoe profile` on one machine of "));
  EXPECT_THAT(printed({"forecast", EVERMOE_SOURCE_DIR "/configs/mixtral-tiny.toml", file, "--runs",
                       "1", "--set", "cluster.nodes=4"}),
              HasSubstr("on 4 nodes of 1 GPU"));
  const Json measured = Json::parse(printed({"profile", "--directory", folder_.root(), "--disk-mib",
                                             "4", "--stream-mib", "16", "--json"}));
  for (const char* key :
       {"copy_bytes_per_second", "memory_bytes_per_second", "disk_write_bytes_per_second",
        "disk_read_bytes_per_second", "stream_bytes_per_second"}) {
    EXPECT_GT(measured[key].get<double>(), 1e6) << key;
    EXPECT_LT(measured[key].get<double>(), 1e13) << key;
  }
  EXPECT_LT(measured["stream_latency_seconds"].get<double>(), 0.1);
  // Nothing is left behind.
  EXPECT_THAT(real_files().list(folder_.root()).value(),
              ::testing::UnorderedElementsAre("machine.toml", "stderr", "stdout"));
  EXPECT_EQ(refusal({"profile", "--directory", folder_.path("none")}),
            "evermoe: --directory: found \"D/none\", allowed: an existing folder");
}

// What `evermoe profile --job` has measured takes the place of the cluster's [recovery], and --set
// that of both.
TEST_F(PlannerCommandsTest, AForecastTakesMeasuredRecoveries) {
  const std::string head = R"(version = 3
[job]
fingerprint = "0123456789abcdef0123456789abcdef"
build = "b"
stages = 1
ranks = 1
nodes = 1
step_seconds = 1.0
begin_seconds = 0.0
end_seconds = 0.0
[[strategy]]
name = "none"
step_seconds = 1.0
begin_seconds = 0.0
end_seconds = 0.0
window_steps = 0.0
save_seconds = 0.0
save_lag_steps = 0.0
)";
  const std::string recovery =
      "[recovery]\ndetect_seconds = 0.5\nrestart_seconds = 4\nstandby_seconds = 0.25\n"
      "migrate_seconds = 0.125\n";
  std::vector<std::string> arguments = {
      "forecast", "gpt-moe-7.3b", kCluster, "--runs",
      "1",        "--json",       "--set",  "recovery.detect_seconds=10"};
  const auto with = [&](const std::string& file) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--recovery", file});
    return all;
  };
  const Json found = Json::parse(
      printed(with(folder_.write("job.toml", head + recovery))))["strategy"]["recovery"];
  EXPECT_EQ(found["detect_seconds"], 10);
  EXPECT_EQ(found["restart_seconds"], 4);
  EXPECT_EQ(found["standby_seconds"], 0.25);
  EXPECT_NEAR(found["move_seconds"].get<double>(),
              0.125 + 2 * found["load_memory_seconds"].get<double>(), 1e-9);
  EXPECT_THAT(refusal(with(folder_.write("none.toml", head))),
              StartsWith("evermoe: D/none.toml: recovery: found nothing, allowed: a table"));
  EXPECT_THAT(refusal(with(folder_.path("gone.toml"))),
              StartsWith("evermoe: D/gone.toml: no such file"));
}

TEST_F(PlannerCommandsTest, WrongInputIsOneLine) {
  EXPECT_THAT(refusal({"plan"}), StartsWith("evermoe: MODEL is required"));
  EXPECT_THAT(
      refusal({"plan", "nothing", kCluster}),
      StartsWith("evermoe: model: found \"nothing\", allowed: a file ending in .toml, or one of "));
  EXPECT_THAT(
      refusal({"plan", "gpt-moe-7.3b", "nothing"}),
      StartsWith(
          "evermoe: cluster: found \"nothing\", allowed: a file ending in .toml, or one of "));
  EXPECT_EQ(refusal({"plan", "gpt-moe-7.3b", folder_.path("x.toml")}),
            "evermoe: D/x.toml: no such file, allowed: a cluster as TOML");
  EXPECT_EQ(refusal({"plan", "gpt-moe-7.3b", folder_.write("c.toml", "[cluster]\nnodes = 0\n")}),
            "evermoe: D/c.toml:2:9: cluster.nodes: found 0, allowed: integer from 1 to 1048576");
  EXPECT_EQ(refusal({"plan", "gpt-moe-7.3b", kCluster, "--json", "--toml"}),
            "evermoe: plan: found --json and --toml, allowed: one of them");
  EXPECT_EQ(refusal({"plan", "gpt-moe-7.3b", kCluster, "--copies", "9"}),
            "evermoe: budget: copies: found 9, allowed: 1 to 8");
  EXPECT_THAT(refusal({"plan", "gpt-moe-7.3b", kCluster, "--failures", "mtbf=3"}),
              StartsWith("evermoe: --failures failures.mtbf=3: unknown key, allowed: "));
  EXPECT_EQ(refusal({"plan", "gpt-moe-7.3b", kCluster, "--failures", "x.csv"}),
            "evermoe: x.csv: no such file, allowed: a failure trace");
  EXPECT_THAT(refusal({"forecast", "gpt-moe-7.3b", kCluster, "--set", "train.stps=3"}),
              StartsWith("evermoe: --set train.stps=3: "));
  EXPECT_THAT(refusal({"forecast", "gpt-moe-7.3b", kCluster, "--sweep", "cluster.nodes"}),
              StartsWith("evermoe: sweep: found \"cluster.nodes\", allowed: "));
  EXPECT_THAT(refusal({"forecast", "gpt-moe-7.3b", kCluster, "--scale", "12"}),
              StartsWith("evermoe: "));
  EXPECT_EQ(
      refusal({"forecast", "gpt-moe-7.3b", kCluster, "--scale", "many"}),
      "evermoe: --scale: found \"many\", allowed: usual, or numbers of GPUs from 1 to 8388608");
  EXPECT_EQ(refusal({"forecast", "gpt-moe-7.3b", kCluster, "--replacement", "magic"}),
            "evermoe: --replacement: found \"magic\", allowed: restart, standby, elastic");
}

}  // namespace
}  // namespace evermoe
