#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/cluster_model/measured_cluster.h"

namespace evermoe {
namespace {

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

}  // namespace
}  // namespace evermoe
