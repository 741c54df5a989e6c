// Token tensors of micro-batches.
#pragma once

#include "base/ids.h"
#include "config/job_config.h"
#include "corpus/sample_order.h"
#include "corpus/token_source.h"
#include "tensor/torch.h"

namespace evermoe {

struct MicroBatchTokens {
  at::Tensor inputs;   // [micro_batch_size, sequence_length], int64
  at::Tensor targets;  // the same, one token later
};

// Immutable; keeps the token files mapped.
class BatchReader {
 public:
  BatchReader(const JobConfig& config, TokenPart training, TokenPart validation, at::Device device);

  // A pure function of (seed, step, micro-batch).
  MicroBatchTokens training(Step step, MicroBatch micro_batch) const;
  // Validation windows in file order, beginning again at the end.
  MicroBatchTokens validation(MicroBatch micro_batch) const;

 private:
  MicroBatchTokens read(const TokenPart& range, const std::vector<int64_t>& windows) const;

  const TokenPart training_;
  const TokenPart validation_;
  const SampleOrder order_;
  const int64_t length_;
  const int64_t batch_;
  const at::Device device_;
};

}  // namespace evermoe
