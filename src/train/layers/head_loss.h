// The mean cross-entropy of the next tokens, without the logits of all tokens at once.
#pragma once

#include "tensor/torch.h"
#include "train/state/operator_state.h"

namespace evermoe {

// Computes logits_rows() rows of logits at a time (model/activation_bytes.h).
//
// x [N, hidden] normalised, weight [vocabulary, hidden], targets [N] -> a scalar in `type`. Adds to
// `hits`, unless it is null, the targets whose logits are the largest of their rows.
//
// The gradients of `scale` times the loss are computed right here, chunk by chunk in the order of
// the tokens, because logits are too large to be kept and too expensive to be computed again;
// whoever runs the backward pass starts it with exactly `scale`. Without gradient mode there are
// none.
at::Tensor head_loss(const at::Tensor& x, const Parameter& weight, const at::Tensor& targets,
                     at::ScalarType type, double scale, int64_t* hits = nullptr);

}  // namespace evermoe
