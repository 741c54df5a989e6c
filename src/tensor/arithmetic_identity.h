// What has to be equal on all workers for their arithmetic to agree bit for bit.
#pragma once

#include <string>

namespace evermoe {

// Lines "key=value": PyTorch version, CPU capability that the kernels were chosen for, oneDNN
// version, compute threads, and a fingerprint of what small products and layers come to here.
// Different values give different bits (often in gradients only), so workers that differ must not
// train together. REQUIRES: the compute threads are set; what is tried is tried once a process.
std::string arithmetic_identity();

// One compute thread pool of this size for the process. Call before any tensor work.
void set_compute_threads(int threads);

}  // namespace evermoe
