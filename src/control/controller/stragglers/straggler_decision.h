// Whether a straggler is moved to another machine. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace evermoe {

struct StragglerCosts {
  absl::Duration step;         // how long it takes
  absl::Duration excess;       // so much of it because of the straggler
  absl::Duration preparation;  // from the wish to move until the job stands for it
  absl::Duration pause;        // for which it stands
  int64_t steps_left = 0;
};
struct StragglerDecision {
  bool is_moved = false;
  std::string arithmetic;  // for people
};
// It is if the steps that are left when the move is made save more than the pause.
StragglerDecision decide_straggler(const StragglerCosts& costs);

}  // namespace evermoe
