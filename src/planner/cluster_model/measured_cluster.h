// One machine as it was measured, in the form that plans and forecasts read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/cluster_model/cluster_spec.h"

namespace evermoe {

struct MeasuredMachine {
  int processors = 1;
  int64_t memory_bytes = 0;
  double copy_bytes_per_second = 0;        // one thread copies memory: what a capture does
  double memory_bytes_per_second = 0;      // read and written by all processors together
  double disk_write_bytes_per_second = 0;  // until fsync returned
  double disk_read_bytes_per_second = 0;
  double stream_bytes_per_second = 0;  // between two processes, over loopback
  double stream_latency_seconds = 0;   // one way
  std::optional<double> flops;         // per second, of matrix products; none without torch
};

// A cluster of this one machine, whose processors together are its only "GPU": captures run at the
// speed of a copy, other nodes are reached at that of loopback (an upper bound for any network),
// storage is the disk. What was not measured has the default values: failures, recovery, and
// without torch the products' rate.
ClusterSpec measured_cluster(const MeasuredMachine& machine);

// That cluster as TOML, with what was measured, and what was not, in comments at the top.
std::string measured_toml(const MeasuredMachine& machine);

// One JSON object of the measurements, in SI units.
std::string to_json(const MeasuredMachine& machine);

}  // namespace evermoe
