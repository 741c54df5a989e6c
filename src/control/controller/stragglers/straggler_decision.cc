#include "control/controller/stragglers/straggler_decision.h"

#include "absl/strings/str_format.h"

namespace evermoe {

StragglerDecision decide_straggler(const StragglerCosts& costs) {
  const absl::Duration saved = static_cast<double>(costs.steps_left) * costs.excess;
  return {.is_moved = saved > costs.pause,
          .arithmetic = absl::StrFormat(
              "the %d steps that are left take %.1f s longer with it, a move takes about %.1f s",
              costs.steps_left, absl::ToDoubleSeconds(saved), absl::ToDoubleSeconds(costs.pause))};
}

}  // namespace evermoe
