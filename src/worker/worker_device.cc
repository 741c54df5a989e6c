#include "worker/worker_device.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "config/job_topology.h"
#include "config/memory/stage_memory.h"
#include "tensor/compute_device.h"
#include "tensor/gpus.h"

namespace evermoe {
namespace {

constexpr int kWorkersOfGpuMax = 64;
constexpr absl::Duration kPatience = absl::Seconds(20), kAskAgain = absl::Milliseconds(50);

// As far as there is anything to take.
std::optional<WorkerDevice> take_gpu(int workers_max) {
  for (int worker = 0; worker < workers_max; ++worker) {
    for (size_t number = 0; number < gpus().size(); ++number) {
      std::optional<ExclusiveName> claim =
          ExclusiveName::take(absl::StrCat("evermoe-gpu-", gpus()[number].identity, "-", worker));
      if (claim)
        return WorkerDevice{{c10::kCUDA, static_cast<c10::DeviceIndex>(number)}, std::move(claim)};
    }
  }
  return std::nullopt;
}

std::string gibibytes(int64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

}  // namespace

absl::Status check_device_memory(const JobConfig& config, Rank rank, c10::Device device) {
  if (!device.is_cuda()) return absl::OkStatus();
  const Topology topology = topology_of(config);
  const StageMemory need = stage_memory(config, topology, topology.role_of(rank).stage);
  const Gpu& gpu = gpus().at(static_cast<size_t>(device.index()));
  if (need.rank_sum() <= gpu.memory_bytes) return absl::OkStatus();
  const StateBytes& state = need.rank_max;
  return InvalidInput(absl::StrCat(
      "train.device: role ", topology.name_of(rank), " needs ", gibibytes(need.rank_sum()),
      " (weights ", gibibytes(state.weights), ", gradients ", gibibytes(state.gradients),
      ", optimizer ", gibibytes(state.optimizer), ", activations ",
      gibibytes(need.activations + need.deferred), "), the ", gpu.name, " has ",
      gibibytes(gpu.memory_bytes),
      "; use more parallel.lanes or parallel.stages, a smaller train.micro_batch_size, or "
      "train.recompute"));
}

absl::StatusOr<c10::Device> device_here(DeviceChoice wanted) {
  if (wanted == DeviceChoice::kCpu) return c10::kCPU;
  const bool has_cuda = torch_has_cuda();
  if (has_cuda && !gpus().empty()) return c10::Device(c10::kCUDA, 0);
  if (wanted == DeviceChoice::kAuto) return c10::kCPU;
  return InvalidInput(absl::StrCat("train.device: found \"cuda\", allowed here: auto, cpu: ",
                                   has_cuda ? "this machine has no NVIDIA GPU that PyTorch can use"
                                            : "PyTorch " EVERMOE_TORCH_VERSION
                                              " is built without CUDA"));
}

absl::StatusOr<WorkerDevice> take_device(const JobConfig& config, Clock& clock) {
  ASSIGN_OR_RETURN(const c10::Device kind, device_here(config.train.device));
  if (!kind.is_cuda()) return WorkerDevice{};
  const bool shares = config.run.shares_gpus || config.train.device == DeviceChoice::kAuto;
  const absl::Duration deadline = clock.now() + kPatience;
  while (true) {
    std::optional<WorkerDevice> taken = take_gpu(shares ? kWorkersOfGpuMax : 1);
    if (taken) {
      use_device(taken->device);
      return *std::move(taken);
    }
    if (clock.now() >= deadline) break;
    clock.sleep_until(clock.now() + kAskAgain);
  }
  return InvalidInput(absl::StrCat(
      "train.device: this machine has ", gpus().size(),
      gpus().size() == 1 ? " GPU, which has" : " GPUs, all of which have",
      shares ? absl::StrCat(" ", kWorkersOfGpuMax, " workers") : std::string(" a worker"),
      "; allowed: fewer workers on a machine", shares ? "" : ", or run.shares_gpus = true"));
}

}  // namespace evermoe
