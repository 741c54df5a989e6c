#include "train/state/gradient_reduction.h"

#include <algorithm>

namespace evermoe {

GradientReduction::GradientReduction(const std::vector<OperatorState*>& operators,
                                     DeferredGradients& deferred, const BucketLimits& limits)
    : backward_(operators.rbegin(), operators.rend()),
      deferred_(deferred),
      exchange_(BucketedExchange::Kind::kReduceGradients, backward_, limits) {}

void GradientReduction::add_up_to(size_t first) {
  added_ = std::max(added_, backward_.size() - first);
  go_on();
}

void GradientReduction::run_deferred() {
  add_up_to(0);
  while (deferred_.run_one()) go_on();
}

void GradientReduction::go_on() {
  while (exchange_.ready() < added_ && !backward_[exchange_.ready()]->has_deferred_gradients()) {
    exchange_.add_ready();
  }
  exchange_.advance();
}

}  // namespace evermoe
