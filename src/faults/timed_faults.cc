#include "faults/timed_faults.h"

#include <algorithm>
#include <utility>

namespace evermoe {

TimedFaults::TimedFaults(const FaultScript& script, const std::set<int>& injected) {
  for (const Fault& fault : script.faults) {
    if (fault.after_seconds && !injected.contains(fault.index)) pending_.push_back(fault);
  }
  std::sort(pending_.begin(), pending_.end(), [](const Fault& a, const Fault& b) {
    return std::pair(*a.after_seconds, a.index) > std::pair(*b.after_seconds, b.index);
  });
}

std::vector<Fault> TimedFaults::due(double seconds) {
  std::vector<Fault> due;
  while (!pending_.empty() && *pending_.back().after_seconds <= seconds) {
    due.push_back(std::move(pending_.back()));
    pending_.pop_back();
  }
  return due;
}

std::optional<double> TimedFaults::next_seconds() const {
  return pending_.empty() ? std::nullopt : pending_.back().after_seconds;
}

}  // namespace evermoe
