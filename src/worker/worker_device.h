// Which device a worker computes on: the one place that decides it.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "config/job_config.h"
#include "env/clock.h"
#include "env/exclusive_name.h"

namespace evermoe {

struct WorkerDevice {
  c10::Device device = c10::kCPU;
  std::optional<ExclusiveName> claim;  // of a GPU, among all workers of the machine
};

// Takes a GPU that no other worker of this machine has, or, where workers may share them
// (run.shares_gpus, or nobody asked for GPUs), one that the fewest have; waits a little for one,
// because a worker that is killed keeps its own until the kernel has cleaned up. Then use_device().
// InvalidInput, one line, where train.device asks for a GPU and there is none, or none is left.
absl::StatusOr<WorkerDevice> take_device(const JobConfig& config, Clock& clock);

// InvalidInput with the arithmetic if this role needs more memory than the device has. Nothing is
// known of a CPU's, or of other workers on the GPU.
absl::Status check_device_memory(const JobConfig& config, Rank rank, c10::Device device);

// A device of the same kind, without taking one.
absl::StatusOr<c10::Device> device_here(DeviceChoice wanted);

}  // namespace evermoe
