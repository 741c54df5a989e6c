// The interval that a budget for durable saves comes to, for those who train by it (save_pace.h)
// and those who predict a run.
#pragma once

#include <cstdint>

namespace evermoe {

// What one save costs, in undisturbed steps.
struct SaveSteps {
  double longer = 0;   // that training takes longer for it
  double to_disk = 0;  // from its begin until it is on disk
};

// The steps from one save to the next, 1 to SavePace::kIntervalMax: as long as a save takes to
// reach the disk, and so long that what it lengthens training by is at most the share
// `overhead_budget` of it. REQUIRES: overhead_budget > 0.
int64_t paced_interval(const SaveSteps& save, double overhead_budget);

}  // namespace evermoe
