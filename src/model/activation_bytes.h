// The memory that activations take on a rank, counted without computing any. Pure.
//
// What is counted is what the layers of train/ keep for their backward pass; whoever changes what
// is kept there changes it here, and a test compares both with what real runs allocate.
#pragma once

#include <cstdint>

#include "model/model_shape.h"

namespace evermoe {

enum class KeptActivations { kAll, kOutsideExperts, kLayerInputs };

struct ActivationShape {
  int64_t micro_batch_size = 1;  // sequences
  int64_t element_bytes = 4;     // of the compute type
  KeptActivations kept = KeptActivations::kAll;
  // The layers that a rank holds. Its experts' rows are taken to be its tokens' share.
  int64_t first_layer = 0;
  int64_t end_layer = 0;
  bool holds_head = false;
  int64_t rounds_in_flight = 1;  // micro-batches whose activations are held at once
  int64_t micro_batches = 1;     // of this lane in a step, for deferred gradients
};

struct ActivationBytes {
  int64_t kept = 0;      // from forward to backward, of all rounds in flight
  int64_t working = 0;   // at most beside them, inside one layer or the head
  int64_t deferred = 0;  // of all gradients of weights in a step, if nothing limits them
  int64_t peak() const { return kept + working; }
};

ActivationBytes activation_bytes(const ModelShape& shape, const ActivationShape& activations);

// Rows of logits that are computed at a time: a function of the vocabulary alone, because more than
// one chunk gives the weight's gradient other bits than one. `element_bytes`: of the loss, at
// least 4.
int64_t logits_rows(int64_t vocabulary, int64_t element_bytes);

}  // namespace evermoe
