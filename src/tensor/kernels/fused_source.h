// The text of fused_kernels.cu.
#pragma once

namespace evermoe {

extern const char* const kFusedKernels;

}  // namespace evermoe
