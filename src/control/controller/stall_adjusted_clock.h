// Time as it counts for a process that waits for signs of life: without the stretches in which it
// stood still itself (stopped, starved, its machine paused). Nobody else is late because of those.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace evermoe {

class StallAdjustedClock {
 public:
  // `standstill`: longer than any time between two calls of at() while the process runs.
  StallAdjustedClock(absl::Duration now, absl::Duration standstill)
      : standstill_(standstill), newest_(now) {}

  absl::Duration at(absl::Duration now) {
    const absl::Duration gap = now - newest_;
    newest_ = std::max(newest_, now);
    if (gap > standstill_) lost_ += gap;
    return newest_ - lost_;
  }
  // What to add to come back to the clock's time.
  absl::Duration lost() const { return lost_; }

 private:
  const absl::Duration standstill_;
  absl::Duration newest_;
  absl::Duration lost_ = absl::ZeroDuration();
};

}  // namespace evermoe
