// How long a rank computed for a step, which tells the controller who is slow.
#pragma once

#include <cstddef>

#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

struct StepTime {
  Step step;
  absl::Duration computing;  // apart from waiting for others
  // How much there was to compute, in a unit that is the same on all lanes of a stage.
  double work = 0;
  friend bool operator==(const StepTime&, const StepTime&) = default;
};

// As many of a rank are kept, or travel in one message: more than there are steps between two signs
// of life, but for toys, of which older ones are left out.
inline constexpr size_t kStepTimesMax = 64;

}  // namespace evermoe
