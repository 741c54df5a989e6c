#include "planner/cluster_model/measured_cluster.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/report/amount_text.h"

namespace evermoe {

ClusterSpec measured_cluster(const MeasuredMachine& machine) {
  ClusterSpec cluster = default_cluster();
  cluster.nodes = cluster.gpus_per_node = 1;
  cluster.host_memory_bytes = static_cast<double>(machine.memory_bytes);
  cluster.gpu.name = kUnnamedGpu;
  cluster.gpu.memory_bytes = static_cast<double>(machine.memory_bytes);
  cluster.gpu.memory_bytes_per_second = machine.memory_bytes_per_second;
  cluster.gpu.host_bytes_per_second = machine.copy_bytes_per_second;
  cluster.gpu.fabric_bytes_per_second = cluster.nic_bytes_per_second =
      machine.stream_bytes_per_second;
  cluster.disk_bytes_per_second = cluster.storage_bytes_per_second =
      machine.disk_write_bytes_per_second;
  cluster.latency_seconds = machine.stream_latency_seconds;
  if (machine.flops) {
    cluster.gpu.flops = *machine.flops;
    cluster.efficiency = 1;  // what was measured is what products reach
  }
  return cluster;
}

std::string measured_toml(const MeasuredMachine& machine) {
  std::string text =
      absl::StrFormat("# Measured by `evermoe profile` on one machine of %d processors and %s:\n",
                      machine.processors, bytes_text(static_cast<double>(machine.memory_bytes)));
  auto say = [&](const char* what, const std::string& value) {
    absl::StrAppendFormat(&text, "#   %-28s %s\n", what, value);
  };
  auto rate = [](double bytes) { return absl::StrCat(bytes_text(bytes), "/s"); };
  say("memory, copied by one thread", rate(machine.copy_bytes_per_second));
  say("memory, read and written", rate(machine.memory_bytes_per_second));
  say("disk, written with fsync", rate(machine.disk_write_bytes_per_second));
  say("disk, read", rate(machine.disk_read_bytes_per_second));
  say("stream between processes", rate(machine.stream_bytes_per_second));
  say("its latency, one way", absl::StrFormat("%.3g us", 1e6 * machine.stream_latency_seconds));
  say("matrix products",
      machine.flops
          ? absl::StrFormat("%.4g GFLOP/s", *machine.flops / 1e9)
          : "not measured (no torch in this build): set gpu.tflops and gpu.efficiency by hand");
  absl::StrAppend(&text,
                  "# Not measured: failures and recovery, and any network beyond this machine.\n\n",
                  to_toml(measured_cluster(machine)));
  return text;
}

std::string to_json(const MeasuredMachine& machine) {
  const nlohmann::ordered_json json = {
      {"processors", machine.processors},
      {"memory_bytes", machine.memory_bytes},
      {"copy_bytes_per_second", machine.copy_bytes_per_second},
      {"memory_bytes_per_second", machine.memory_bytes_per_second},
      {"disk_write_bytes_per_second", machine.disk_write_bytes_per_second},
      {"disk_read_bytes_per_second", machine.disk_read_bytes_per_second},
      {"stream_bytes_per_second", machine.stream_bytes_per_second},
      {"stream_latency_seconds", machine.stream_latency_seconds},
      {"flops", machine.flops ? nlohmann::ordered_json(*machine.flops) : nlohmann::ordered_json()}};
  return json.dump(2) + "\n";
}

}  // namespace evermoe
