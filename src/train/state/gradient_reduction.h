// Sums the gradients of a step over the operators' owners while its last backward pass is still
// running.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "train/layers/deferred_gradients.h"
#include "train/state/bucketed_exchange.h"

namespace evermoe {

// Threads: the training thread only.
class GradientReduction {
 public:
  // Operators in the model's order. All must outlive the reduction. `on_reduced` is told of each
  // that is not frozen as soon as its shard_gradient() is the sum over its owners. `before` sees
  // each operator once, when this rank's own gradient of it is complete and nobody else's is added;
  // may throw StatusError. Null: nobody looks.
  using OnReduced = BucketedExchange::OnExchanged;
  using BeforeSum = std::function<void(const OperatorState&)>;
  GradientReduction(
      const std::vector<OperatorState*>& operators, DeferredGradients& deferred,
      const BucketLimits& limits, OnReduced on_reduced = [](const OperatorState&) {},
      BeforeSum before = nullptr);

  // Nothing more is added to the operators from number `first` on but what is put off: sums those
  // of which nothing is. Does not wait; errors come with finish().
  void add_up_to(size_t first);
  // Nothing more is added to any operator: computes all that is put off, one operator after the
  // other, so that each is summed, and told of, while the next ones are computed.
  void run_deferred();
  // Waits until every shard_gradient() is the sum over its owners. After run_deferred().
  absl::Status finish() { return exchange_.finish(); }

 private:
  void go_on();
  // Of operators with one owner, which need no exchange, whenever they are complete: an embedding
  // is before the matrices that are put off, and in the model's order it would be the last one.
  void tell_of_own();

  const std::vector<OperatorState*> backward_;  // from the last operator to the first
  DeferredGradients& deferred_;
  const OnReduced on_reduced_;
  const BeforeSum before_;
  BucketedExchange exchange_;
  size_t added_ = 0;           // of backward_
  std::vector<bool> is_told_;  // of backward_: tell_of_own() has seen it complete
};

}  // namespace evermoe
