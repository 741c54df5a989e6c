// Single keys of a cluster, and the page that lists them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "planner/cluster_model/cluster_spec.h"
#include "planner/plan/plan_testing.h"

namespace evermoe {
namespace {

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

}  // namespace
}  // namespace evermoe
