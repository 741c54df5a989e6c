// Kernels for NVIDIA GPUs that are compiled at run time, by the compiler that PyTorch brings
// (NVRTC): to build needs neither a CUDA toolkit nor its headers.
#pragma once

#include <span>
#include <string>

#include "tensor/torch.h"

namespace evermoe {

// Threads: any.
class KernelModule {
 public:
  // Compiles `source` for a GPU. Throws c10::Error with the compiler's words if it does not
  // compile, or if there is no compiler.
  KernelModule(const char* source, at::Device device);

  struct Grid {
    int64_t blocks;
    int64_t threads;  // of each
  };
  // Runs a kernel behind what the default stream was given before, and does not wait. `arguments`
  // point to values of exactly the types that the kernel has. Nothing for zero blocks.
  void launch(const char* kernel, Grid grid, std::span<void*> arguments) const;

 private:
  void* module_ = nullptr;
};

// "13.0", or empty without a compiler.
std::string kernel_compiler_version();

}  // namespace evermoe
