#include "protection/partial_experts/dynamic_k.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

// The values below `experts` that K takes when it doubles from k_first.
int levels(const LossyKOptions& options) {
  int count = 0;
  for (int k = options.k_first; k < options.experts; k *= 2) ++count;
  return count;
}

void double_k(LossyKState& state, const LossyKOptions& options) {
  state.k = std::min(2 * state.k, options.experts);
  state.lost_under_k = 0;
}

}  // namespace

LossyKDecision lossy_k_after_fault(LossyKState state, int64_t lost_now,
                                   const LossyKOptions& options) {
  CHECK(1 <= options.k_first && options.k_first <= options.experts && lost_now >= 0);
  state.lost += lost_now;
  state.lost_under_k += lost_now;
  const int64_t lost_under_k = state.lost_under_k;
  const int k_before = state.k;
  // lost_under_k > lost_tokens_max / levels, in integers.
  if (state.k < options.experts && lost_under_k * levels(options) > options.lost_tokens_max) {
    double_k(state, options);
  }
  return {state, absl::StrCat("failures under K = ", k_before, " lost ", lost_under_k,
                              " tokens, its share is ", options.lost_tokens_max, " / ",
                              levels(options), ": K = ", state.k)};
}

LossyKDecision lossy_k_guarded(LossyKState state, const std::function<int64_t(int)>& exposed_after,
                               const LossyKOptions& options) {
  int64_t exposed = exposed_after(state.k);
  const int k_before = state.k;
  while (state.lost + exposed > options.lost_tokens_max && state.k < options.experts) {
    double_k(state, options);
    exposed = exposed_after(state.k);
  }
  CHECK(state.k < options.experts || exposed == 0)
      << exposed << " tokens exposed with all experts saved";
  return {
      state,
      absl::StrCat("lost ", state.lost, " tokens, a failure after this checkpoint costs ", exposed,
                   ", allowed are ", options.lost_tokens_max, ": K ", k_before, " -> ", state.k)};
}

}  // namespace evermoe
