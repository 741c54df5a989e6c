#include "control/controller/moves/move_payoff.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace evermoe {

MovePayoff payoff_of(const MoveCosts& costs) {
  const double until_then = std::ceil(absl::FDivDuration(costs.preparation, costs.step));
  const double steps = std::max(0.0, static_cast<double>(costs.steps_left) - until_then);
  const absl::Duration saved = steps * costs.excess;
  return {.is_positive = saved > costs.pause,
          .arithmetic = absl::StrFormat(
              "a move is made in about %.0f s, %.0f steps are left then and take %.1f s longer "
              "with it, and the job stands for about %.1f s",
              absl::ToDoubleSeconds(costs.preparation), steps, absl::ToDoubleSeconds(saved),
              absl::ToDoubleSeconds(costs.pause))};
}

}  // namespace evermoe
