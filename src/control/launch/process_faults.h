// The faults of a script that strike processes by time: the run sees to them, for it knows all processes.
// Those at named points, and those between workers, are the workers' own (faults/fault_trigger.h).
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "faults/timed_faults.h"

namespace evermoe {

class ProcessFaults {
 public:
  // `struck`: those that have struck before in the life of the job; `struck_path`: where they are kept.
  ProcessFaults(const FaultScript& script, const std::set<int>& struck, std::string struck_path, absl::Duration began);

  // Strikes what is due by `strike`, each once; first writes it down.
  void strike_due(absl::Duration now, const std::function<void(const Fault&)>& strike);
  absl::Duration next() const;  // when the next one is due; infinite: never

 private:
  const std::string struck_path_;
  const absl::Duration began_;
  TimedFaults timed_;
};

}  // namespace evermoe
