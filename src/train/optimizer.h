// AdamW on the shards that this rank owns.
#pragma once

#include <vector>

#include "config/job_config.h"
#include "train/operator_state.h"
#include "train/verdict.h"

namespace evermoe {

// Sum of squares of the reduced gradient shards: the optimizer's part of the verdict. Each shard's
// norm is taken in the master type and squared in FP64; shards are added in operator order.
double gradient_square_sum(const std::vector<OperatorState*>& operators);

// Divides the gradient shards by record.gradient_divisor and updates masters and moments:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = w (1 - lr decay) - lr (m / (1 - b1^n)) / (sqrt(v / (1 - b2^n)) + epsilon)
// with n = updates_applied, counted from 1. Weight decay only where the operator says so. Uses
// torch's fused kernel: another formula would have other bits, so there is one for everybody.
// Compute weights must be gathered afterwards.
void apply_adamw(const std::vector<OperatorState*>& operators, const TrainConfig& train,
                 const StepRecord& record, int64_t updates_applied);

}  // namespace evermoe
