// AdamW on the shards that this rank owns.
#pragma once

#include <vector>

#include "config/job_config.h"
#include "train/state/operator_state.h"
#include "train/step/verdict.h"

namespace evermoe {

// Sum of squares of the reduced gradient shards: the optimizer's part of the verdict. Each shard's
// norm is taken in the master type and squared in FP64; shards are added in operator order. Frozen
// operators have no gradient and are left out.
double gradient_square_sum(const std::vector<OperatorState*>& operators);

// One update, the `updates_applied`-th of the run, counted from 1. Uses torch's fused kernel:
// another formula would have other bits, so there is one for everybody.
class AdamW {
 public:
  AdamW(const TrainConfig& train, const StepRecord& record, int64_t updates_applied,
        at::Device device);

  // In this rank's parts of ranges of flat layouts, cut at multiples of kFlatAlignment: divides
  // the gradient shard by record.gradient_divisor and updates master and moments:
  //   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
  //   w = w (1 - lr decay) - lr (m / (1 - b1^n)) / (sqrt(v / (1 - b2^n)) + epsilon)
  // with n = updates_applied. Weight decay only where the operator says so. The bits do not depend
  // on which operators are updated, in which order, or in how many ranges. Compute weights are cast
  // and gathered afterwards.
  //
  // State narrower than FP32 is widened, updated by the same kernel and rounded stochastically: an
  // update far smaller than the distance of two stored numbers moves the weight by as much in the
  // mean. The random number of an element is a function of (seed, n, operator, part of the state,
  // element) alone. A narrow second moment is kept as its root, for which FP16 has enough range,
  // and does not become zero while there is any: the update would be m / epsilon.
  void update(const std::vector<OperatorRange>& ranges) const;

 private:
  // FP32 or FP64, of equal sizes at each place.
  struct Tensors {
    std::vector<at::Tensor> master, gradient, exp_avg, exp_avg_sq;
  };
  // Appends a part of the shard, or updates it at once if its state is narrow.
  void add(OperatorState& state, FlatRange own, double weight_decay, Tensors& tensors) const;
  // The kernel.
  void step(const Tensors& tensors, double weight_decay) const;
  void update_narrow(OperatorState& state, FlatRange own, double weight_decay) const;
  RoundingStream rounding(const OperatorState& state, StatePart part, int64_t first) const;

  const TrainConfig& train_;
  const double learning_rate_;
  const int64_t updates_applied_;
  const at::Tensor step_;
  const at::Tensor divisor_;
};

}  // namespace evermoe
