// Looks on in a micro-batch for the first number that is not finite. Reads only: the bits of
// everything else stay what they are. It costs a pass over every activation, so it is used only
// after a step that was skipped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/layers/non_finite.h"

namespace evermoe {

// Whether all elements are finite; true for none.
bool is_finite(const at::Tensor& tensor);

// The first place of a step on this rank.
class NonFiniteLog {
 public:
  explicit NonFiniteLog(const ModelShape& shape);

  void clear() { first_ = kAllFinite; }
  void add(NonFinitePhase phase, int32_t micro_batch, const std::string& operator_name);
  int64_t first() const { return first_; }  // a key

 private:
  std::map<std::string, int32_t> index_;  // of the whole model's operators
  int64_t first_ = kAllFinite;
};

class FiniteProbe {
 public:
  // The log outlives the probe and every graph that it has watched.
  FiniteProbe(NonFiniteLog& log, MicroBatch micro_batch)
      : log_(&log), micro_batch_(micro_batch.value) {}

  // What this operator computed, and later its gradient.
  void watch(const at::Tensor& value, const std::string& operator_name) const;
  // Outputs of experts [T, top_k, hidden]; experts[t][j] made row [t][j].
  void watch_experts(const at::Tensor& outputs, const at::Tensor& experts, int layer) const;

 private:
  NonFiniteLog* log_;
  int32_t micro_batch_;
};

}  // namespace evermoe
