// Token tensors of micro-batches.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "config/job_config.h"
#include "data/evaluation_order.h"
#include "data/sample_order.h"
#include "data/token_source.h"
#include "tensor/torch.h"

namespace evermoe {

struct MicroBatchTokens {
  at::Tensor inputs;  // [sequences, sequence_length], int64
  // One token later: [sequences * sequence_length], or the last of them, if only those count.
  at::Tensor targets;
};

// Immutable; keeps the token files mapped.
class BatchReader {
 public:
  BatchReader(const JobConfig& config, TokenPart training, TokenPart validation, at::Device device);

  // A pure function of (seed, step, micro-batch) and the windows that are quarantined.
  MicroBatchTokens training(Step step, MicroBatch micro_batch,
                            std::span<const int64_t> quarantined = {}) const;
  // The windows that it reads, by row, and where one begins in the training part.
  std::vector<int64_t> training_windows(Step step, MicroBatch micro_batch,
                                        std::span<const int64_t> quarantined) const;
  int64_t begin_of(int64_t window) const { return window * length_; }
  int64_t window_tokens() const { return length_ + 1; }
  int64_t windows() const { return order_.windows; }
  // What an evaluation reads.
  const EvaluationOrder& evaluation() const { return evaluation_; }
  MicroBatchTokens validation(MicroBatch micro_batch) const;

 private:
  // Sequences that begin there.
  MicroBatchTokens read(const TokenPart& range, const std::vector<int64_t>& begins) const;

  const TokenPart training_;
  const TokenPart validation_;
  const SampleOrder order_;
  const EvaluationOrder evaluation_;
  const int64_t length_;
  const int64_t batch_;
  const at::Device device_;
};

}  // namespace evermoe
