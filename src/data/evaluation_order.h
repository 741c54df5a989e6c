// Which tokens an evaluation reads: windows spread over the held-out text, or all of it, each
// target once.
//
// A pure function of these numbers, so that every rank knows the shape of every micro-batch and the
// loss is the same in any topology.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace evermoe {

struct EvaluationOrder {
  int64_t tokens = 0;  // of the held-out text, more than sequence_length
  int64_t sequence_length = 0;
  int64_t micro_batch_size = 0;   // sequences of a micro-batch, but perhaps of the last one
  int64_t micro_batches_max = 0;  // 0: the whole text

  // So many are run: at most micro_batches_max, and no more than the whole text has.
  int64_t micro_batches() const;
  // Sequences of all micro-batches.
  int64_t sequences() const;
  int64_t sequences_of(MicroBatch micro_batch) const;
  // Where each sequence begins in the text; it has sequence_length inputs and the targets one
  // further.
  std::vector<int64_t> begins_of(MicroBatch micro_batch) const;
  // Its targets that count are the last so many. All of them do, but where the whole text is read
  // and what is left at its end is shorter than a sequence: that one begins earlier, comes first in
  // its micro-batch, and the targets that others have had do not count again.
  int64_t targets_of(MicroBatch micro_batch) const;

 private:
  int64_t whole_windows() const { return (tokens - 1) / sequence_length; }
  int64_t rest() const { return (tokens - 1) % sequence_length; }
  bool reads_all() const;
};

}  // namespace evermoe
