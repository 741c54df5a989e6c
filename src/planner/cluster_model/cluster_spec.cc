#include "planner/cluster_model/cluster_spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

constexpr double kHour = 3600, kDay = 86400;

// Llama 3 405B: 35 of 419 unexpected interruptions in 54 days on 2,048 nodes of 8 GPUs were
// switches and cables (Grattafiori et al. 2024, table 5). Its other causes are a node's or the
// software's; none is called storage or power.
constexpr double kLlamaNodes = 2048, kLlamaNetworkFailures = 35;

struct Range {
  double min = 0;
  double max = 0;
  bool min_open = false;
  bool contains(double value) const {
    return (min_open ? value > min : value >= min) && value <= max;
  }
};

// value / unit, so that times unit it is `value` again to the last bit wherever some double does
// that.
double exact_quotient(double value, double unit) {
  const double quotient = value / unit;
  for (const double near :
       {quotient, std::nextafter(quotient, INFINITY), std::nextafter(quotient, -INFINITY)}) {
    if (near * unit == value) return near;
  }
  return quotient;
}

// A number that is `unit` times as large in the spec. `field(cluster)` is where it stands.
template <typename Field>
ClusterKey number_key_at(std::string name, Field field, double unit, Range range,
                         std::string meaning) {
  ClusterKey key{std::move(name),
                 absl::StrCat("number x with ", range.min, range.min_open ? " < x" : " <= x",
                              " <= ", range.max),
                 std::move(meaning)};
  key.read = [=](double value, ClusterSpec& cluster) {
    if (!range.contains(value)) return false;
    field(cluster) = value * unit;
    return true;
  };
  key.write = [=](const ClusterSpec& cluster) { return exact_quotient(field(cluster), unit); };
  return key;
}

ClusterKey number_key(std::string name, double ClusterSpec::*field, double unit, Range range,
                      std::string meaning) {
  return number_key_at(
      std::move(name), [=](auto& cluster) -> auto& { return cluster.*field; }, unit, range,
      std::move(meaning));
}

template <typename Part>
ClusterKey number_key(std::string name, Part ClusterSpec::*part, double Part::*field, double unit,
                      Range range, std::string meaning) {
  return number_key_at(
      std::move(name), [=](auto& cluster) -> auto& { return (cluster.*part).*field; }, unit, range,
      std::move(meaning));
}

ClusterKey integer_key(std::string name, int ClusterSpec::*field, int min, int max,
                       std::string meaning) {
  ClusterKey key{std::move(name), absl::StrCat("integer from ", min, " to ", max),
                 std::move(meaning)};
  key.is_integer = true;
  key.read = [=](double value, ClusterSpec& cluster) {
    if (value < min || value > max) return false;
    cluster.*field = static_cast<int>(value);
    return true;
  };
  key.write = [=](const ClusterSpec& cluster) { return cluster.*field; };
  return key;
}

constexpr Range kPositive{0, 1e9, true}, kShare{0, 1}, kFromZero{0, 1e9};
using C = ClusterSpec;

void add_machine_keys(std::vector<ClusterKey>& keys) {
  keys.push_back(
      integer_key("cluster.nodes", &C::nodes, 1, 1 << 20, "nodes of the job, spares not counted"));
  keys.push_back(
      integer_key("cluster.gpus_per_node", &C::gpus_per_node, 1, 1024, "GPUs of a node"));
  keys.push_back(integer_key("cluster.racks", &C::racks, 0, 1 << 20,
                             "racks, which the nodes are divided into in order; 0 if not known"));
  keys.push_back(
      integer_key("cluster.spares", &C::spares, 0, 1 << 20, "nodes beside those of the job"));
  keys.push_back(number_key("cluster.host_memory_gb", &C::host_memory_bytes, 1e9, kPositive,
                            "host memory of a node"));
  keys.push_back(number_key("gpu.tflops", &C::gpu, &GpuSpec::flops, 1e12, kPositive,
                            "peak of one GPU, BF16, dense, in 10^12 per second"));
  keys.push_back(number_key("gpu.efficiency", &C::efficiency, 1, {0, 1, true},
                            "share of the peak that dense products reach in training"));
  keys.push_back(number_key("gpu.memory_gb", &C::gpu, &GpuSpec::memory_bytes, 1e9, kPositive,
                            "memory of one GPU"));
  keys.push_back(number_key("gpu.memory_gb_per_second", &C::gpu, &GpuSpec::memory_bytes_per_second,
                            1e9, kPositive, "bandwidth of that memory"));
}

void add_link_keys(std::vector<ClusterKey>& keys) {
  keys.push_back(number_key("links.nvlink_gb_per_second", &C::gpu,
                            &GpuSpec::fabric_bytes_per_second, 1e9, kPositive,
                            "one GPU to the others of its node"));
  keys.push_back(number_key("links.pcie_gb_per_second", &C::gpu, &GpuSpec::host_bytes_per_second,
                            1e9, kPositive, "one GPU to host memory"));
  keys.push_back(number_key("links.nic_gb_per_second", &C::nic_bytes_per_second, 1e9, kPositive,
                            "one node to others"));
  keys.push_back(
      number_key("links.disk_gb_per_second", &C::disk_bytes_per_second, 1e9, kFromZero,
                 "one node to a disk that outlives it, 0 for no limit but the storage's"));
  keys.push_back(number_key("links.storage_gb_per_second", &C::storage_bytes_per_second, 1e9,
                            kFromZero, "all nodes together to durable storage, 0 for none"));
  keys.push_back(number_key("links.latency_microseconds", &C::latency_seconds, 1e-6, kFromZero,
                            "of a message between nodes"));
  keys.push_back(
      number_key("links.capture_overhead_share", &C::capture_overhead_share, 1, kShare,
                 "by how much captures and copies that run all the time lengthen a step"));
}

// The same life, said of one GPU: all GPUs of a node fail it.
ClusterKey gpu_mtbf_key() {
  ClusterKey key{"failures.gpu_mtbf_hours",
                 "number x with 0 < x <= 1e+09, instead of node_mtbf_hours",
                 "mean time between failures of one GPU"};
  key.is_written = false;
  key.read = [](double value, ClusterSpec& cluster) {
    if (!kPositive.contains(value)) return false;
    cluster.failures.node_mtbf_seconds = value * kHour / cluster.gpus_per_node;
    return true;
  };
  key.write = [](const ClusterSpec& cluster) {
    return cluster.failures.node_mtbf_seconds * cluster.gpus_per_node / kHour;
  };
  return key;
}

void add_failure_keys(std::vector<ClusterKey>& keys) {
  using F = FailureLaw;
  keys.push_back(number_key("failures.node_mtbf_hours", &C::failures, &F::node_mtbf_seconds, kHour,
                            kPositive, "mean time between failures of one node"));
  keys.push_back(gpu_mtbf_key());
  keys.push_back(number_key("failures.shape", &C::failures, &F::shape, 1, {0.1, 20},
                            "shape of the Weibull distribution of the time between failures: 1 is "
                            "exponential; below 1, most failures come soon after a repair"));
  keys.push_back(number_key("failures.repair_hours", &C::failures, &F::repair_seconds, kHour,
                            kFromZero, "until a failed node is back"));
  keys.push_back(number_key("failures.crash_share", &C::failures, &F::crash_share, 1, kShare,
                            "of the failures: need no repair"));
  keys.push_back(number_key("failures.announced_share", &C::failures, &F::announced_share, 1,
                            kShare, "of the others: the node can be left before it goes"));
  keys.push_back(number_key("failures.rack_mtbf_hours", &C::failures, &F::rack_mtbf_seconds, kHour,
                            kFromZero, "mean time between failures of one rack, 0 for never"));
  keys.push_back(number_key("failures.rack_repair_hours", &C::failures, &F::rack_repair_seconds,
                            kHour, kFromZero, "until a failed rack is back"));
  keys.push_back(number_key("failures.whole_job_node_hours", &C::failures,
                            &F::whole_job_node_seconds, kHour, kFromZero,
                            "nodes times hours between failures of the whole job (storage, "
                            "switches, power): with n nodes one every n-th part of it; 0 for "
                            "never"));
}

void add_recovery_keys(std::vector<ClusterKey>& keys) {
  using R = RecoverySeconds;
  struct Row {
    const char* name;
    double R::*field;
    const char* meaning;
  };
  for (const Row& row :
       {Row{"detect", &R::detect, "until a failure is noticed"},
        Row{"restart", &R::restart, "cold: reschedule, start processes, connect, warm up"},
        Row{"standby", &R::standby, "until a warm standby has taken the roles"},
        Row{"reconfigure", &R::reconfigure, "elastic: until training goes on with fewer nodes"},
        Row{"grow", &R::grow, "elastic: pause to take in nodes that came"},
        Row{"grow_wait", &R::grow_wait, "elastic: wait after the first new node, for more to come"},
        Row{"migrate", &R::migrate,
            "pause while roles move to another node, apart from their state's way"}}) {
    keys.push_back(number_key(absl::StrCat("recovery.", row.name, "_seconds"), &C::recovery,
                              row.field, 1, kFromZero, row.meaning));
  }
}

std::vector<ClusterKey> all_keys() {
  std::vector<ClusterKey> keys;
  add_machine_keys(keys);
  add_link_keys(keys);
  add_failure_keys(keys);
  add_recovery_keys(keys);
  return keys;
}

}  // namespace

double ClusterSpec::durable_bytes_per_second() const {
  if (disk_bytes_per_second == 0) return storage_bytes_per_second;
  return std::min(storage_bytes_per_second, disk_bytes_per_second * nodes);
}

ClusterSpec default_cluster() {
  ClusterSpec cluster;
  cluster.gpu = gpu_spec("A100-80GB").value();
  cluster.host_memory_bytes = 1e12;
  cluster.nic_bytes_per_second = 25e9;
  cluster.disk_bytes_per_second = 2e9;
  cluster.storage_bytes_per_second = 5e9;
  cluster.failures.node_mtbf_seconds = 1000 * kDay / 6.5;
  cluster.failures.repair_seconds = kDay;
  cluster.failures.whole_job_node_seconds = kLlamaNodes * 54 * kDay / kLlamaNetworkFailures;
  cluster.recovery = {.detect = 2,
                      .restart = 267,
                      .standby = 20,
                      .reconfigure = 30,
                      .grow = 30,
                      .grow_wait = 120,
                      .migrate = 10};
  return cluster;
}

const std::vector<ClusterKey>& cluster_keys() {
  static const std::vector<ClusterKey>& keys = *new std::vector<ClusterKey>(all_keys());
  return keys;
}

}  // namespace evermoe
