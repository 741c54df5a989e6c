// The faults of a script that fire processes by time: the run sees to them, for it knows all
// processes. Those at named points, and those between workers, are the workers' own
// (faults/fault_trigger.h).
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
  // `injected`: those that have fired before in the life of the job; `injected_path`: where they
  // are kept.
  ProcessFaults(const FaultScript& script, const std::set<int>& injected, std::string injected_path,
                absl::Duration began);

  // Injects what is due by `inject`, each once; first writes it down.
  void inject_due(absl::Duration now, const std::function<void(const Fault&)>& inject);
  absl::Duration next() const;  // when the next one is due; infinite: never
  // The same of those that wait for a step, which is done.
  void inject_after(Step step, const std::function<void(const Fault&)>& inject);

 private:
  void inject_once(const Fault& fault, const std::function<void(const Fault&)>& inject) const;

  const std::string injected_path_;
  const absl::Duration began_;
  TimedFaults timed_;
  std::vector<Fault> by_step_;  // that are still to come
};

}  // namespace evermoe
