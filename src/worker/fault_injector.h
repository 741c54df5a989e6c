// Injects faults into this worker, or into others on its behalf, as a fault script says (`evermoe
// run --faults`).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "env/clock.h"
#include "faults/fault_script.h"
#include "faults/fault_trigger.h"
#include "faults/timed_faults.h"
#include "worker/slow_down.h"

namespace evermoe {

struct FaultInjectorOptions {
  std::string script;  // of a JobFolder, with the list of injected faults beside it
  std::string injected;
  std::string control;  // OUT/control.json, for the controller's process
  FaultRole role;
  int node = 0;
  bool is_newcomer = false;  // FaultTrigger
  absl::Duration job_began;  // by the machine's clock
};

// What the injector asks of its process. Called at fault points, in any thread.
struct FaultActions {
  std::function<Step()> step;     // the last one that is done; asked on the training thread only
  std::function<int()> recovery;  // that is under way, from 1; 0: none
  std::function<void(FaultRole)> cut;    // the connection with the process that plays this role
  std::function<bool()> waits;           // the training thread, for others; in any thread
  std::function<void()> corrupt_copies;  // that others hold of this role's snapshots
  std::function<void()> corrupt_state;   // on the training thread only
  std::function<void()> corrupt_result;  // likewise: of what is computed next
  // Before training, and once for each range: what is trained of these tokens of the training part
  // has a loss that is not finite.
  std::function<void(int64_t begin, int64_t end)> poison;
};

// While it lives, the fault points of this process are armed.
class FaultInjector {
 public:
  // InvalidInput if a file cannot be read.
  static absl::StatusOr<std::unique_ptr<FaultInjector>> arm(Files& files, Clock& clock,
                                                            FaultInjectorOptions options,
                                                            FaultLimits limits,
                                                            FaultActions actions);
  ~FaultInjector();

 private:
  FaultInjector(Clock& clock, FaultInjectorOptions options, FaultActions actions,
                const FaultScript& script, const std::set<int>& injected);
  void on_point(const char* point);
  void inject(const Fault& fault);

  Clock& clock_;
  const FaultInjectorOptions options_;
  const FaultActions actions_;
  std::atomic<int64_t> step_under_way_ = 0;
  SlowDown slow_down_;
  Mutex mutex_;
  FaultTrigger trigger_ ABSL_GUARDED_BY(mutex_);
  // Of this role, of the kinds that a worker must see to.
  TimedFaults timed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
