// The gate of a Mixture-of-Experts layer: which experts a token goes to and with what weight, and
// the losses that keep the load balanced.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/state/operator_state.h"

namespace evermoe {

// Which tokens a micro-batch has, where routing is drawn (experts/load/synthetic_routing.h).
struct TokenPlace {
  uint64_t seed = 0;
  Step step{-1};  // that the step begins at; Step(-1): of an evaluation
  MicroBatch micro_batch;
};

// On the device of the tokens.
struct GateChoice {
  at::Tensor experts;  // [T, top_k] int64
  at::Tensor weights;  // [T, top_k] in at least FP32
  at::Tensor load;     // [experts] int64: how many choices name each
  at::Tensor
      probability;  // [experts] FP64: softmax of the logits, or what the draw goes by, summed
                    // over the tokens
  // balance_loss * E * sum_e f_e P_e + z_loss * mean(logsumexp(logits)^2), a scalar, where f_e is
  // the share of the micro-batch's choices that name e and P_e the mean probability of e (Switch
  // Transformer, eq. 4, per micro-batch). Undefined for zero tokens.
  at::Tensor auxiliary_loss;
};

// x [T, hidden], of MoE layer `layer`. Arithmetic in at least FP32. T = 0 is allowed. Does not wait
// for the device.
//
// Synthetic routing draws the experts alone. Their weights are still what the gate gives to the
// experts that were drawn: so every operator gets a gradient, as it does in training.
GateChoice choose_experts(const at::Tensor& x, const Parameter& gate, const ModelShape& shape,
                          int layer, const TokenPlace& place);

}  // namespace evermoe
