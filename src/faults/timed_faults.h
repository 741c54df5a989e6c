// The faults of a script that fire by time, for whoever watches over the whole job.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "faults/fault.h"

namespace evermoe {

// One thread at a time.
class TimedFaults {
 public:
  // `injected`: indices of the faults that have fired before in the life of the job.
  TimedFaults(const FaultScript& script, const std::set<int>& injected);

  // The faults whose time has come and that were not returned before, earliest first, the script's
  // order among equals. Seconds since the job began, also in a controller that was started again.
  std::vector<Fault> due(double seconds);
  // When the next one is injected.
  std::optional<double> next_seconds() const;

 private:
  std::vector<Fault> pending_;  // latest first
};

}  // namespace evermoe
