// The gate of a Mixture-of-Experts layer: which experts a token goes to and with what weight, and
// the losses that keep the load balanced.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/state/operator_state.h"

namespace evermoe {

struct GateChoice {
  std::vector<int64_t> experts;  // [T * top_k] on the host: the choices of token t are at t * top_k
  at::Tensor weights;            // [T, top_k] in at least FP32
  std::vector<int64_t> load;     // tokens per expert
  std::vector<double> probability;  // softmax of the logits, of each expert, summed over the tokens
  // balance_loss * E * sum_e f_e P_e + z_loss * mean(logsumexp(logits)^2), a scalar, where f_e is
  // the share of the micro-batch's choices that name e and P_e the mean probability of e (Switch
  // Transformer, eq. 4, per micro-batch). Undefined for zero tokens.
  at::Tensor auxiliary_loss;
};

// x [T, hidden]. Arithmetic in at least FP32. T = 0 is allowed.
GateChoice choose_experts(const at::Tensor& x, const Parameter& gate, const ModelShape& shape);

}  // namespace evermoe
