#include "planner/cluster_model/cluster_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace evermoe {
namespace {

std::string why(const std::string& text) {
  return std::string(parse_cluster(text, "c.toml").status().message());
}

TEST(ClusterSpecTest, ATextSetsWhatItNames) {
  const auto cluster = parse_cluster(R"(
[failures]
gpu_mtbf_hours = 20000
repair_hours = 12
[cluster]
nodes = 16
gpus_per_node = 4
racks = 2
[gpu]
tflops = 500
name = "H100"
[links]
nic_gb_per_second = 50
)",
                                     "c.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->gpus(), 64);
  EXPECT_EQ(cluster->gpu.memory_bytes, 80e9);  // the name's
  EXPECT_EQ(cluster->gpu.flops, 500e12);       // changed, wherever it stands
  EXPECT_EQ(cluster->failures.node_mtbf_seconds, 5000 * 3600.0);
  EXPECT_EQ(cluster->nic_per_gpu(), 12.5e9);
  EXPECT_NEAR(1 / cluster->job_mtbf_seconds(),
              16 / (5000 * 3600.0) + 1 / cluster->whole_job_mtbf_seconds(), 1e-15);
  EXPECT_EQ(cluster->recovery.standby, 20);  // a default
}

TEST(ClusterSpecTest, AnEmptyTextIsTheDefault) {
  EXPECT_EQ(*parse_cluster("", "c.toml"), default_cluster());
}

TEST(ClusterSpecTest, WrittenAndReadAgainItIsEqual) {
  ClusterSpec cluster = default_cluster();
  cluster.nodes = 1000;
  cluster.racks = 63;
  cluster.gpu = gpu_spec("H800").value();
  cluster.gpu.flops = 7e14;
  cluster.failures.node_mtbf_seconds = 1e7 / 3;
  cluster.failures.rack_mtbf_seconds = 12345.678 * 3600;
  cluster.failures.shape = 0.7;
  cluster.recovery.detect = 0.123;
  cluster.latency_seconds = 3.3e-6;
  const auto again = parse_cluster(to_toml(cluster), "again");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << to_toml(cluster);
  EXPECT_EQ(*again, cluster) << to_toml(cluster);
}

TEST(ClusterSpecTest, EveryKeyCanBeWrittenReadAndRefused) {
  for (const ClusterKey& key : cluster_keys()) {
    ClusterSpec cluster = default_cluster();
    const double value = key.write(cluster);
    EXPECT_TRUE(key.read(value, cluster)) << key.name;
    EXPECT_FALSE(key.read(-1, cluster)) << key.name;
    EXPECT_FALSE(key.meaning.empty() || key.allowed.empty()) << key.name;
  }
}

TEST(ClusterSpecTest, ErrorsAreOneLineThatSaysWhereWhatAndWhy) {
  EXPECT_EQ(why("[cluster]\nnodes = 0\n"),
            "c.toml:2:9: cluster.nodes: found 0, allowed: integer from 1 to 1048576");
  EXPECT_EQ(why("[cluster]\nnodes = 1.5\n"),
            "c.toml:2:9: cluster.nodes: found 1.5, allowed: integer from 1 to 1048576");
  EXPECT_EQ(why("[gpu]\nname = \"A100\"\n").substr(0, 47),
            "c.toml:2:8: gpu.name: found \"A100\", allowed: V1");
  EXPECT_EQ(
      why("[links]\nwifi = 3\n"),
      "c.toml:2:1: \"links.wifi\": found an unknown key, allowed: nvlink_gb_per_second, "
      "pcie_gb_per_second, nic_gb_per_second, "
      "disk_gb_per_second, storage_gb_per_second, latency_microseconds, capture_overhead_share");
  EXPECT_EQ(why("nodes = 3\n"),
            "c.toml:1:1: \"nodes\": found an unknown table or key, allowed: cluster, gpu, links, "
            "failures, recovery");
  EXPECT_EQ(why("cluster = 3\n"), "c.toml:1:1: cluster: found 3, allowed: a table");
  EXPECT_EQ(why("[failures]\ncrash_share = \"x\"\n"),
            "c.toml:2:15: failures.crash_share: found \"x\", allowed: number x with 0 <= x <= 1");
  EXPECT_EQ(
      why("[failures]\nannounced_share = 1.01\n"),
      "c.toml:2:19: failures.announced_share: found 1.01, allowed: number x with 0 <= x <= 1");
  EXPECT_EQ(
      why("[failures]\nannounced_share = -0.1\n"),
      "c.toml:2:19: failures.announced_share: found -0.1, allowed: number x with 0 <= x <= 1");
  EXPECT_EQ(why("[recovery]\nmigrate_seconds = -1\n").substr(0, 54),
            "c.toml:2:19: recovery.migrate_seconds: found -1, allow");
  EXPECT_EQ(why("[failures]\ngpu_mtbf_hours = 1\nnode_mtbf_hours = 1\n"),
            "c.toml:1:1: failures.gpu_mtbf_hours: found node_mtbf_hours as well, allowed: one of "
            "the two");
  EXPECT_EQ(why("[cluster]\nnodes = 2\nracks = 3\n"),
            "c.toml:1:1: cluster.racks: found 3, allowed: at most cluster.nodes (2)");
  EXPECT_EQ(why("[failures]\nrack_mtbf_hours = 3\n"),
            "c.toml: failures.rack_mtbf_hours: found 3, allowed: 0 where cluster.racks does not "
            "say how many racks there are");
  EXPECT_EQ(why("[cluster\n").substr(0, 24), "c.toml:1:9: not TOML: Er");
  for (const char* text : {"[cluster]\nnodes = []\n", "[cluster]\nnodes = 1979-05-27\n",
                           "[[cluster]]\n", "[gpu]\nname = 3\n"}) {
    EXPECT_EQ(why(text).find('\n'), std::string::npos) << text;
    EXPECT_NE(why(text), "") << text;
  }
}

TEST(ClusterSpecTest, MissingFilesAreInvalidInput) {
  EXPECT_EQ(load_cluster(real_files(), "/nowhere/c.toml").status().message(),
            "/nowhere/c.toml: no such file, allowed: a cluster as TOML");
}

}  // namespace
}  // namespace evermoe
