#include "train/batch_reader.h"

namespace evermoe {

BatchReader::BatchReader(const JobConfig& config, TokenPart training, TokenPart validation, at::Device device)
    : training_(training), validation_(validation),
      order_{.seed = config.train.seed,
             .windows = window_count(training.size(), config.model.sequence_length),
             .micro_batches = config.train.micro_batches,
             .micro_batch_size = config.train.micro_batch_size},
      length_(config.model.sequence_length), batch_(config.train.micro_batch_size), device_(device) {
  CHECK(order_.windows > 0 && window_count(validation_.size(), length_) > 0);
}

MicroBatchTokens BatchReader::training(Step step, MicroBatch micro_batch) const {
  std::vector<int64_t> windows;
  for (int64_t row = 0; row < batch_; ++row) windows.push_back(order_.window_of(step, micro_batch, row));
  return read(training_, windows);
}

MicroBatchTokens BatchReader::validation(MicroBatch micro_batch) const {
  const int64_t available = window_count(validation_.size(), length_);
  std::vector<int64_t> windows;
  for (int64_t row = 0; row < batch_; ++row) windows.push_back((micro_batch.value * batch_ + row) % available);
  return read(validation_, windows);
}

MicroBatchTokens BatchReader::read(const TokenPart& range, const std::vector<int64_t>& windows) const {
  at::Tensor tokens = at::empty({static_cast<int64_t>(windows.size()), length_ + 1}, at::kLong);
  int64_t* row = tokens.mutable_data_ptr<int64_t>();
  for (const int64_t window : windows) {
    range.read(window * length_, {row, static_cast<size_t>(length_ + 1)});
    row += length_ + 1;
  }
  return {tokens.narrow(1, 0, length_).contiguous().to(device_),
          tokens.narrow(1, 1, length_).contiguous().to(device_)};
}

}  // namespace evermoe
