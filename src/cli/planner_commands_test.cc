// plan, forecast and place in the real binary: what they print, and what wrong input gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/run_binary_testing.h"
#include "config/job_config.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kCluster = EVERMOE_SOURCE_DIR "/examples/clusters/a100-12x8.toml";
const std::string kTrace = EVERMOE_SOURCE_DIR "/data/planner/infinitehbd-fault-events.csv";

class PlannerCommandsTest : public testing::Test {
 protected:
  BinaryResult run(const std::vector<std::string>& arguments) {
    return run_binary(arguments, folder_.root());
  }

  std::string printed(const std::vector<std::string>& arguments) {
    const BinaryResult result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.error;
    return result.out;
  }

  // Expects bad input: exit code 2, nothing on stdout, one line on stderr.
  std::string refusal(const std::vector<std::string>& arguments) {
    const BinaryResult result = run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    return without_folder(result.error.substr(0, result.error.find('\n')), folder_.root());
  }

  TestFolder folder_;
};

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

TEST_F(PlannerCommandsTest, PlaceShowsNodesAndWhatTheySurvive) {
  const std::string text = printed({"place", "--experts", "3", "--nodes", "3", "--slots", "2"});
  EXPECT_THAT(
      text,
      StartsWith(
          "3 experts on 3 nodes of 2 slots, mro_q: every expert survives any one failed node\n"));
  EXPECT_THAT(text,
              HasSubstr("chance that some expert is lost, by failed nodes: 1: never, 2: always\n"));
  const Json json = Json::parse(printed(
      {"place", "--loads", "0,3,5", "--nodes", "2", "--slots", "3", "--faults", "1", "--json"}));
  EXPECT_THAT(json["replicas"], ElementsAre(1, 2, 3));
  EXPECT_EQ(json["experts_of_nodes"].size(), 2u);
  // The vector of ten nodes in two groups of five.
  const Json groups = Json::parse(printed(
      {"place", "--experts", "4", "--nodes", "10", "--slots", "2", "--faults", "5", "--json"}));
  EXPECT_NEAR(groups["survival_by_lost_nodes"][5].get<double>(), 0.9921, 5e-5);
  EXPECT_NEAR(groups["survival_by_lost_nodes"][8].get<double>(), 0.5556, 5e-5);
}

TEST_F(PlannerCommandsTest, PlaceExplains) {
  const std::string loads = folder_.write("loads.txt", "100 200\n400, 100\n");
  const std::string text = printed(
      {"place", "--loads", loads, "--nodes", "4", "--slots", "2", "--explain", "--racks", "2"});
  for (const char* part :
       {"replicas: every expert gets 2 first", "not allowed", "nodes: experts on the same set",
        "hold experts", "other placements", "compact", "by failed racks: 1: never"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

// Racks of neighbours: with the plan's own order a group of two nodes would stand in one rack.
TEST_F(PlannerCommandsTest, RacksKeepReplicasApart) {
  const Json json = Json::parse(printed(
      {"place", "--experts", "4", "--nodes", "4", "--slots", "2", "--racks", "2", "--json"}));
  EXPECT_EQ(json["survival_by_lost_racks"][1], 1.0);
  EXPECT_TRUE(json["experts_in_one_rack"].empty());
}

// The transfers, carried out one by one, must lead from what the live nodes hold to the placement.
TEST_F(PlannerCommandsTest, AMoveLeadsFromThePlacementBefore) {
  const std::string before =
      printed({"place", "--experts", "16", "--nodes", "8", "--slots", "4", "--json"});
  const std::string file = folder_.write("before.json", before);
  for (const char* const racks : {"0", "3"}) {
    SCOPED_TRACE(racks);
    const Json json =
        Json::parse(printed({"place", "--experts", "16", "--nodes", "7", "--slots", "5", "--racks",
                             racks, "--from", file, "--lost", "3,5", "--json"}));
    const Json& migration = json["migration"];
    EXPECT_THAT(migration["nodes_before"], ElementsAre(0, 1, 2, 4, 6, 7, -1));
    std::vector<std::set<int>> held(7);
    const Json experts_before = Json::parse(before)["experts_of_nodes"];
    for (size_t node = 0; node < 6; ++node)
      held[node] =
          experts_before[migration["nodes_before"][node].get<size_t>()].get<std::set<int>>();
    std::set<std::pair<int, int>> sent, received;  // (round, node)
    for (const Json& one : migration["transfers"]) {
      const int expert = one["expert"], round = one["round"];
      EXPECT_LT(round, migration["rounds"]);
      EXPECT_TRUE(held[one["source"].get<size_t>()].contains(expert));
      EXPECT_TRUE(held[one["destination"].get<size_t>()].insert(expert).second);
      EXPECT_TRUE(sent.emplace(round, one["source"]).second);
      EXPECT_TRUE(received.emplace(round, one["destination"]).second);
    }
    EXPECT_FALSE(sent.empty());
    EXPECT_TRUE(migration["unavailable"].empty());  // two replicas of each, on other nodes
    for (size_t node = 0; node < 7; ++node) {
      for (const int expert : json["experts_of_nodes"][node])
        EXPECT_TRUE(held[node].contains(expert)) << node << " lacks " << expert;
    }
  }
}

TEST_F(PlannerCommandsTest, AMoveSaysWhoSendsWhatAndWhatIsMissing) {
  const std::string file = folder_.write("before.json", "{\"experts_of_nodes\": [[0], [1], [2]]}");
  EXPECT_EQ(printed({"place", "--experts", "3", "--nodes", "3", "--slots", "1", "--faults", "1",
                     "--from", file, "--lost", "1"}),
            R"(3 experts on 3 nodes of 1 slots, mro_q: one failed node can lose an expert
  busiest node  1.000 times the mean load
  chance that some expert is lost, by failed nodes: 1: always
migration: 0 transfers in 0 rounds; a node sends 0 and receives 0 at most, one of each in a round
  no live node holds expert 1: node 2 reads it from a copy
  node 0        0
  node 1 (was 2) 2
  node 2 (new)  1
)");
  auto refused = [&](const std::string& text, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"place",   "--experts", "2",
                                          "--nodes", "2",         "--slots",
                                          "2",       "--from",    folder_.write("b.json", text)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return refusal(arguments);
  };
  EXPECT_EQ(refused("[]", {}),
            "evermoe: D/b.json: found no list \"experts_of_nodes\", allowed: what `evermoe place "
            "--json` prints");
  EXPECT_EQ(refused("{\"experts_of_nodes\": [[2]]}", {}),
            "evermoe: D/b.json: experts_of_nodes: found 2, allowed: experts 0 to 1");
  EXPECT_EQ(refused("{\"experts_of_nodes\": [[\"1\"]]}", {}),
            "evermoe: D/b.json: experts_of_nodes: found \"1\", allowed: experts 0 to 1");
  EXPECT_EQ(refused("{\"experts_of_nodes\": [[0]]}", {"--lost", "1"}),
            "evermoe: --lost: found a node that is not in D/b.json, allowed: 0 to 0");
  EXPECT_EQ(
      refused("{\"experts_of_nodes\": [[0], [1], [1]]}", {}),
      "evermoe: --nodes: found 2 for 3 nodes of D/b.json, allowed: as many, or name those that "
      "failed with --lost");
  EXPECT_THAT(refused("{", {}), StartsWith("evermoe: D/b.json"));
  EXPECT_EQ(refusal({"place", "--experts", "2", "--nodes", "2", "--slots", "2", "--lost", "1"}),
            "evermoe: place: found --lost without --from, allowed: both or neither");
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
  EXPECT_EQ(refusal({"place", "--nodes", "2", "--slots", "2"}),
            "evermoe: place: allowed: either --experts (with equal loads) or --loads");
  EXPECT_EQ(refusal({"place", "--experts", "9", "--nodes", "2", "--slots", "2"}),
            "evermoe: place: --slots: found 2, allowed: 5 to 8388608");
  EXPECT_EQ(refusal({"place", "--loads", "1,x", "--nodes", "2", "--slots", "2"}),
            "evermoe: --loads: found \"x\", allowed: numbers of tokens, or a file with them");
  EXPECT_THAT(
      refusal({"place", "--experts", "2", "--nodes", "2", "--slots", "2", "--method", "best"}),
      StartsWith("evermoe: "));
  EXPECT_EQ(refusal({"place", "--experts", "2", "--nodes", "2", "--slots", "2", "--racks", "3"}),
            "evermoe: place: --racks: found 3, allowed: 0 to 2");
}

}  // namespace
}  // namespace evermoe
