// The device that a process computes on, and what makes its arithmetic the same in every run.
//
// On a GPU, sums have a fixed order only if PyTorch is told so. Everything runs on the default
// stream of the device, whichever thread starts it, but for copies to host memory
// (tensor/host_bytes.h, tensor/device_copies.h).
#pragma once

#include "tensor/torch.h"

namespace evermoe {

// To be called before the first tensor of that device. On GPUs: only kernels that add in a fixed
// order, whatever is asked of a kernel that has none fails loudly; products of FP32 in FP32, and
// sums of products of narrow types in FP32; gradients are computed on the thread that asks for
// them. Nothing to do for CPUs.
void use_device(at::Device device);

// While it lives, torch::autograd::backward() runs on this thread whatever the device. Otherwise
// one thread for each GPU of the process runs the backward passes of all its threads, and backward
// functions that wait for each other wait for ever.
class BackwardOnThisThread {
 public:
  BackwardOnThisThread();
  ~BackwardOnThisThread();
  BackwardOnThisThread(const BackwardOnThisThread&) = delete;
  BackwardOnThisThread& operator=(const BackwardOnThisThread&) = delete;

 private:
  const bool before_;
};

}  // namespace evermoe
