// Token tensors of micro-batches.
#pragma once

#include "base/ids.h"
#include "config/job_config.h"
#include "corpus/sample_order.h"
#include "corpus/token_file.h"
#include "tensor/torch.h"

namespace evermoe {

// A part of a token file.
struct TokenRange {
  const TokenFile* file = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  // Training windows of `length` inputs (and one more target) that fit.
  int64_t windows(int64_t length) const { return (end - begin - 1) / length; }
};

struct MicroBatchTokens {
  at::Tensor inputs;   // [micro_batch_size, sequence_length], int64
  at::Tensor targets;  // the same, one token later
};

// Immutable; the files must outlive it.
class BatchReader {
 public:
  BatchReader(const JobConfig& config, TokenRange training, TokenRange validation, at::Device device);

  // A pure function of (seed, step, micro-batch).
  MicroBatchTokens training(Step step, MicroBatch micro_batch) const;
  // Validation windows in file order, beginning again at the end.
  MicroBatchTokens validation(MicroBatch micro_batch) const;

 private:
  MicroBatchTokens read(const TokenRange& range, const std::vector<int64_t>& windows) const;

  const TokenRange training_;
  const TokenRange validation_;
  const SampleOrder order_;
  const int64_t length_;
  const int64_t batch_;
  const at::Device device_;
};

}  // namespace evermoe
