// A cluster as far as a forecast needs it: machines, links, how they fail and what recovery takes.
//
// As TOML it has the tables [cluster] [gpu] [links] [failures] [recovery]; cluster_keys() lists the
// keys. `gpu.name` sets the values of a catalogued GPU, which the other keys of [gpu] and [links]
// then change. Rates are bytes per second each way.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/files.h"
#include "planner/cluster_model/gpu_catalog.h"
#include "planner/failures/failure_law.h"
#include "planner/simulate/run_strategy.h"

namespace evermoe {

// Of a spec whose text sets a GPU's rate without naming one.
inline constexpr char kUnnamedGpu[] = "GPU";

struct ClusterSpec {
  int nodes = 1;  // for the job, spares not counted
  int gpus_per_node = 8;
  int racks = 0;                 // that nodes are dealt to in order; 0: not known
  int spares = 0;                // nodes beside those of the job
  double host_memory_bytes = 0;  // of a node

  GpuSpec gpu;
  double efficiency = 0.5;  // share of peak that dense products reach in training

  double nic_bytes_per_second = 0;  // of a node to others
  double disk_bytes_per_second =
      0;  // of a node to a disk that outlives it, 0: no limit but the storage's
  double storage_bytes_per_second =
      0;                           // of all nodes together to durable storage, 0: there is none
  double latency_seconds = 10e-6;  // of a message between nodes
  // By which a step is longer where captures and copies run all the time beside it.
  double capture_overhead_share = 0.01;

  FailureLaw failures;
  RecoverySeconds recovery;  // load times are computed, not given

  int gpus() const { return nodes * gpus_per_node; }
  double job_mtbf_seconds() const { return 1 / failure_rate(failures, nodes, racks); }
  // Of failures that take the whole job at once; 0 if there are none.
  double whole_job_mtbf_seconds() const {
    const double rate = whole_job_failure_rate(failures, nodes);
    return rate > 0 ? 1 / rate : 0;
  }
  // Of all nodes together, 0 without storage.
  double durable_bytes_per_second() const;
  // Of one GPU when all of its node send at once.
  double nic_per_gpu() const { return nic_bytes_per_second / gpus_per_node; }
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

// What a spec has where a text says nothing: 8 A100-80GB, a NIC of 25 GB/s, 6.5 failures per 1000
// node-days, 24 h of repair, a failure of the whole job every 75,835 node-hours (Llama 3's switches
// and cables: 35 in 54 days on 2,048 nodes), and recovery times that papers report (Lazarus 30 s to
// reconfigure, TrainMover 267 s for a cold restart, 20 s with a warm standby, 10 s of pause to
// migrate).
ClusterSpec default_cluster();

struct ClusterKey {
  std::string name;                                      // "failures.node_mtbf_hours"
  std::string allowed;                                   // "number x with 0 < x <= 1e+09"
  std::string meaning;                                   // one line
  std::function<bool(double value, ClusterSpec&)> read;  // false if not allowed
  std::function<double(const ClusterSpec&)> write;
  bool is_integer = false;
  bool is_written = true;  // not for keys that are another way to say the same
};
// All keys but gpu.name, by table, in order. Lives for ever.
const std::vector<ClusterKey>& cluster_keys();

inline constexpr int64_t kClusterBytesMax = 1 << 20;

// InvalidInput with one line "origin:line:column: key: found X, allowed: Y" for text that is not
// TOML, unknown tables and keys, wrong types, values out of range and combinations that make no
// sense.
absl::StatusOr<ClusterSpec> parse_cluster(const std::string& text, const std::string& origin);
// The same for a file; one that cannot be read is InvalidInput too.
absl::StatusOr<ClusterSpec> load_cluster(Files& files, const std::string& path);

// The spec after "key=value" settings in order, keys as in cluster_keys() and gpu.name.
// InvalidInput with one line "where KEY=VALUE: ..." for anything else, or if they make no sense
// together.
absl::StatusOr<ClusterSpec> changed(ClusterSpec cluster, const std::vector<std::string>& settings,
                                    const std::string& where);

// The spec as TOML that parses back to an equal one, with the meaning of every key beside it.
std::string to_toml(const ClusterSpec& cluster);

}  // namespace evermoe
