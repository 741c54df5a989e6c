// Which tokens each micro-batch trains on: a pure function of (seed, step, micro-batch), and of
// what is quarantined.
//
// The training part of a token file is cut into windows of sequence_length + 1 tokens (inputs and
// the targets one further, so windows overlap by one token). One epoch is a seeded permutation of
// all windows, evaluated point-wise (a Feistel network with cycle walking), so no table is kept and
// any sample of any step is found in constant time.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace evermoe {

struct SampleOrder {
  uint64_t seed = 0;
  int64_t windows = 0;           // in the training part, at least 1
  int64_t micro_batches = 0;     // per step
  int64_t micro_batch_size = 0;  // sequences per micro-batch

  // The window of sequence `row` of a micro-batch of the step that leads from Step(s) to Step(s+1).
  // Instead of a quarantined one (ascending, fewer than `windows`) the next one in the file that is
  // not: so the order is a function of what is quarantined, too, and all other samples stay where
  // they are.
  int64_t window_of(Step step, MicroBatch micro_batch, int64_t row,
                    std::span<const int64_t> quarantined = {}) const;
};

// Windows in a part of `tokens` tokens; window w begins at token w * sequence_length of the part.
int64_t window_count(int64_t tokens, int64_t sequence_length);

// The point-wise permutation of 0 .. count - 1 for one (seed, epoch).
int64_t permuted(int64_t index, int64_t count, uint64_t seed, uint64_t epoch);

}  // namespace evermoe
