#include "train/state/gradient_reduction.h"

#include <algorithm>
#include <utility>

namespace evermoe {

GradientReduction::GradientReduction(const std::vector<OperatorState*>& operators,
                                     DeferredGradients& deferred, const BucketLimits& limits,
                                     OnReduced on_reduced, BeforeSum before)
    : backward_(operators.rbegin(), operators.rend()),
      deferred_(deferred),
      on_reduced_(std::move(on_reduced)),
      before_(std::move(before)),
      exchange_(BucketedExchange::Kind::kReduceGradients, backward_, limits, on_reduced_) {}

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
    const OperatorState& state = *backward_[exchange_.ready()];
    if (before_) before_(state);
    exchange_.add_ready();
    if (state.owners().size() == 1 && !state.is_frozen()) on_reduced_(state);
  }
  exchange_.advance();
}

}  // namespace evermoe
