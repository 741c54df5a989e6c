// What an operator computes for one token, from the shapes of its matrices.
//
// A product with an [out, in] matrix takes 2 out in floating-point operations forward, as many for
// the gradient of its input and as many for that of the matrix. Attention between tokens adds 4
// heads head_dim times the mean number of earlier tokens forward, and twice that backward. Norms,
// activations and sums are small beside these and left out; an embedding is a look-up.
#pragma once

#include "model/operator.h"
#include "planner/cost/cost_shape.h"

namespace evermoe {

struct OperatorWork {
  double forward = 0;  // floating-point operations per token that passes through
  double input_gradient = 0;
  double weight_gradient = 0;
  double total() const { return forward + input_gradient + weight_gradient; }
};

OperatorWork operator_work(const OperatorSpec& spec, const CostShape& shape);

// Of a whole step per token of the batch: experts count top_k / experts of their work each. About 6
// times the active parameters, plus attention. Without what is computed again to save memory.
double step_work_per_token(const CostShape& shape);
double step_work_per_token(const std::vector<OperatorSpec>& operators, const CostShape& shape);

}  // namespace evermoe
