// How fast products of matrices are on this machine, measured by the workers' program.
#pragma once

#include "absl/status/statusor.h"

namespace evermoe {

// FP32 operations per second on all processors. Takes a few seconds, at most a minute. InvalidInput
// if the program is not there (worker_program.h).
absl::StatusOr<double> product_rate();

}  // namespace evermoe
