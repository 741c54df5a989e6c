// Public numbers of GPUs, so that a cluster can be described by a name.
//
// Peak rates are those of dense BF16 matrix products from the makers' data sheets; NVLink (Infinity
// Fabric) and PCIe are one direction, PCIe at what copies reach (about 0.8 of nominal).
// Cross-checked with zartbot/shallowsim's device/gpu_info.csv; where that differs from the data
// sheet (H800's memory, 4000 for 3350 GB/s; B200's PCIe) the data sheet counts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

struct GpuSpec {
  std::string name;
  double flops = 0;  // per second, BF16, dense
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double fabric_bytes_per_second = 0;  // to the GPUs of its node, each way
  double host_bytes_per_second = 0;    // to host memory, each way
  friend bool operator==(const GpuSpec&, const GpuSpec&) = default;
};

std::vector<std::string> gpu_names();
// InvalidInput for an unknown name lists them.
absl::StatusOr<GpuSpec> gpu_spec(const std::string& name);

// The share of a dense product's efficiency that grouped expert products reach with so many tokens
// per expert, 1 from 1024 on (zartbot/shallowsim's profiled constants, interpolated in the
// logarithm).
double grouped_product_share(double tokens_per_expert);

}  // namespace evermoe
