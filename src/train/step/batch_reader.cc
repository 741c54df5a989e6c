#include "train/step/batch_reader.h"

#include "config/job_data.h"
#include "tensor/host_bytes.h"

namespace evermoe {

BatchReader::BatchReader(const JobConfig& config, TokenPart training, TokenPart validation,
                         at::Device device)
    : training_(training),
      validation_(validation),
      order_{.seed = config.train.seed,
             .windows = window_count(training.size(), config.model.sequence_length),
             .micro_batches = config.train.micro_batches,
             .micro_batch_size = config.train.micro_batch_size},
      evaluation_(evaluation_order(config, validation.size())),
      length_(config.model.sequence_length),
      batch_(config.train.micro_batch_size),
      device_(device) {
  CHECK(order_.windows > 0 && window_count(validation_.size(), length_) > 0);
}

std::vector<int64_t> BatchReader::training_windows(Step step, MicroBatch micro_batch,
                                                   std::span<const int64_t> quarantined) const {
  std::vector<int64_t> windows;
  for (int64_t row = 0; row < batch_; ++row)
    windows.push_back(order_.window_of(step, micro_batch, row, quarantined));
  return windows;
}

MicroBatchTokens BatchReader::training(Step step, MicroBatch micro_batch,
                                       std::span<const int64_t> quarantined) const {
  std::vector<int64_t> begins = training_windows(step, micro_batch, quarantined);
  for (int64_t& one : begins) one = begin_of(one);
  return read(training_, begins);
}

MicroBatchTokens BatchReader::validation(MicroBatch micro_batch) const {
  MicroBatchTokens tokens = read(validation_, evaluation_.begins_of(micro_batch));
  const int64_t counted = evaluation_.targets_of(micro_batch);
  tokens.targets = tokens.targets.narrow(0, tokens.targets.numel() - counted, counted);
  return tokens;
}

MicroBatchTokens BatchReader::read(const TokenPart& range,
                                   const std::vector<int64_t>& begins) const {
  at::Tensor tokens = at::empty({static_cast<int64_t>(begins.size()), length_ + 1}, at::kLong);
  std::span<int64_t> rows = host_values<int64_t>(tokens);
  const auto width = static_cast<size_t>(length_ + 1);
  for (const int64_t begin : begins) {
    range.read(begin, rows.first(width));
    rows = rows.subspan(width);
  }
  return {tokens.narrow(1, 0, length_).contiguous().to(device_),
          tokens.narrow(1, 1, length_).contiguous().flatten().to(device_)};
}

}  // namespace evermoe
