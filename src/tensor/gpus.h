// The NVIDIA GPUs of this machine, as their driver tells of them. Needs no CUDA to build: the
// driver's library is opened where there is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evermoe {

struct Gpu {
  std::string name;      // "NVIDIA H200"
  std::string identity;  // of this one GPU, as hexadecimal digits: the same in every process
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
};

// Those that this process may use (CUDA_VISIBLE_DEVICES), in the order in which PyTorch numbers
// them. Empty without a GPU or a driver. Asks once a process, and takes no memory on a GPU.
const std::vector<Gpu>& gpus();

// Whether the libtorch of this build computes on them.
bool torch_has_cuda();

// "580.159.04", or empty where it is not known.
std::string gpu_driver_version();

}  // namespace evermoe
