// What has to be equal on all workers for their arithmetic to agree bit for bit.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace evermoe {

// Lines "key=value" of a process that computes on this device: PyTorch version, CPU capability that
// the kernels were chosen for, oneDNN version, compute threads; on a GPU its name, the number of
// its multiprocessors, and the versions of driver, CUDA and cuDNN; and a fingerprint of what small
// products and layers come to there. Different values give different bits (often in gradients
// only), so workers that differ must not train together. REQUIRES: the compute threads are set, and
// use_device() was called; what is tried is tried once a process, which has one device.
std::string arithmetic_identity(c10::Device device = c10::kCPU);

}  // namespace evermoe
