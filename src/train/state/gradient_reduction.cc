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
      exchange_(BucketedExchange::Kind::kReduceGradients, backward_, limits, on_reduced_),
      is_told_(operators.size()) {}

void GradientReduction::add_up_to(size_t first) {
  added_ = std::max(added_, backward_.size() - first);
  go_on();
}

void GradientReduction::run_deferred() {
  add_up_to(0);
  while (exchange_.ready() < added_) {
    backward_[exchange_.ready()]->compute_deferred_gradients();
    go_on();
  }
  deferred_.run_all();
}

void GradientReduction::go_on() {
  tell_of_own();
  while (exchange_.ready() < added_ && !backward_[exchange_.ready()]->has_deferred_gradients()) {
    const OperatorState& state = *backward_[exchange_.ready()];
    if (before_) before_(state);
    exchange_.add_ready();
  }
  exchange_.advance();
}

void GradientReduction::tell_of_own() {
  for (size_t i = 0; i < added_; ++i) {
    const OperatorState& state = *backward_[i];
    if (is_told_[i] || state.has_deferred_gradients()) continue;
    is_told_[i] = true;
    if (state.owners().size() == 1 && !state.is_frozen()) on_reduced_(state);
  }
}

}  // namespace evermoe
