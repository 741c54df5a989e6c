// Whether a straggler is moved to another machine. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace evermoe {

struct StragglerCosts {
  absl::Duration excess;  // what a step takes longer for it
  absl::Duration pause;   // for which the job stands in a move
  int64_t steps_left = 0;
};
struct StragglerDecision {
  bool is_moved = false;
  std::string arithmetic;  // for people
};
// It is if the steps that are left save more than the pause.
StragglerDecision decide_straggler(const StragglerCosts& costs);

}  // namespace evermoe
