// How fast this machine multiplies matrices: with torch (matrix_rate.cc), or not at all (no_matrix_rate.cc).
#pragma once

#include <optional>

namespace evermoe {

// Floating-point operations per second that all processors reach in fp32 products; none in a build without torch.
std::optional<double> matrix_rate();

}  // namespace evermoe
