// Whether roles are worth moving to other machines. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace evermoe {

struct MoveCosts {
  absl::Duration step;         // how long it takes
  absl::Duration excess;       // so much of it because the roles are where they are
  absl::Duration preparation;  // from the wish to move until the job stands for it
  absl::Duration pause;        // for which it stands
  int64_t steps_left = 0;
};
struct MovePayoff {
  bool is_positive = false;
  std::string arithmetic;  // for people
};
// It is if the steps that are left when the move is made save more than the pause. REQUIRES: a step
// takes time.
MovePayoff payoff_of(const MoveCosts& costs);

}  // namespace evermoe
