#include "data/evaluation_order.h"

#include <algorithm>

namespace evermoe {

bool EvaluationOrder::reads_all() const {
  const int64_t all = whole_windows() + (rest() > 0 ? 1 : 0);
  return micro_batches_max == 0 ||
         micro_batches_max >= (all + micro_batch_size - 1) / micro_batch_size;
}

int64_t EvaluationOrder::sequences() const {
  return reads_all() ? whole_windows() + (rest() > 0 ? 1 : 0)
                     : micro_batches_max * micro_batch_size;
}

int64_t EvaluationOrder::micro_batches() const {
  return (sequences() + micro_batch_size - 1) / micro_batch_size;
}

int64_t EvaluationOrder::sequences_of(MicroBatch micro_batch) const {
  return std::min(micro_batch_size, sequences() - micro_batch.value * micro_batch_size);
}

std::vector<int64_t> EvaluationOrder::begins_of(MicroBatch micro_batch) const {
  const int64_t first = micro_batch.value * micro_batch_size;
  std::vector<int64_t> begins;
  for (int64_t i = first; i < first + sequences_of(micro_batch); ++i) {
    if (!reads_all()) {
      // Evenly spread: sequences are fewer than windows, so no two get the same one.
      begins.push_back(
          static_cast<int64_t>(static_cast<__int128>(i) * whole_windows() / sequences()) *
          sequence_length);
    } else if (i < whole_windows()) {
      begins.push_back(i * sequence_length);
    } else {
      begins.insert(begins.begin(), tokens - 1 - sequence_length);
    }
  }
  return begins;
}

int64_t EvaluationOrder::targets_of(MicroBatch micro_batch) const {
  const int64_t targets = sequences_of(micro_batch) * sequence_length;
  const bool has_rest = reads_all() && rest() > 0 && micro_batch.value == micro_batches() - 1;
  return has_rest ? targets - sequence_length + rest() : targets;
}

}  // namespace evermoe
