#include "worker/fault_injector.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "faults/injected_faults.h"

namespace evermoe {
namespace {

// The run sees to processes; what else there is only they can reach.
FaultScript timed_of(const FaultScript& script, FaultRole role) {
  FaultScript own;
  for (const Fault& fault : script.faults) {
    if (fault.after_seconds && is_of_worker_itself(fault.kind) && fault.role == role)
      own.faults.push_back(fault);
  }
  return own;
}

void kill_controller(const std::string& control) {
  std::ifstream file(control);
  const auto pids = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!pids.is_object() || !pids.contains("controller"))
    return log_warning(control + " names no controller");
  ::kill(pids.at("controller").get<pid_t>(), SIGKILL);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultInjector>> FaultInjector::arm(Files& files, Clock& clock,
                                                                  FaultInjectorOptions options,
                                                                  FaultLimits limits,
                                                                  FaultActions actions) {
  ASSIGN_OR_RETURN(const FaultScript script, load_fault_script(files, options.script, limits));
  ASSIGN_OR_RETURN(const std::set<int> injected, read_injected_faults(options.injected));
  for (const Fault& fault : script.faults) {
    if (fault.kind == FaultKind::kPoisonSamples)
      actions.poison(fault.tokens_begin, fault.tokens_end);
  }
  std::unique_ptr<FaultInjector> injector(
      new FaultInjector(clock, std::move(options), std::move(actions), script, injected));
  arm_fault_points([own = injector.get()](const char* point, int64_t) { own->on_point(point); });
  return injector;
}

FaultInjector::FaultInjector(Clock& clock, FaultInjectorOptions options, FaultActions actions,
                             const FaultScript& script, const std::set<int>& injected)
    : clock_(clock),
      options_(std::move(options)),
      actions_(std::move(actions)),
      trigger_(script, options_.role, options_.node, injected, options_.is_newcomer),
      timed_(timed_of(script, options_.role), injected) {}

FaultInjector::~FaultInjector() { arm_fault_points({}); }

void FaultInjector::on_point(const char* point) {
  if (std::strcmp(point, "step/forward") == 0) step_under_way_ = actions_.step().value + 1;
  std::vector<Fault> due;
  {
    const MutexLock lock(mutex_);
    due = trigger_.on_point(point, Step(step_under_way_), actions_.recovery());
    for (const Fault& fault : timed_.due(absl::ToDoubleSeconds(clock_.now() - options_.job_began)))
      due.push_back(fault);
  }
  for (const Fault& fault : due) inject(fault);
}

void FaultInjector::inject(const Fault& fault) {
  log_warning(absl::StrCat("a rehearsed fault is injected: ", to_string(fault)));
  if (const absl::Status kept = add_injected_fault(options_.injected, fault.index); !kept.ok()) {
    return log_error(absl::StrCat("the fault is left out: ", kept.message()));
  }
  switch (fault.kind) {
    case FaultKind::kKillWorker:
    case FaultKind::kKillLeaver:
    case FaultKind::kKillJoiner: ::kill(::getpid(), SIGKILL); return;
    case FaultKind::kKillNode:
      ::kill(0, SIGKILL);  // an agent and its workers are one process group
      return;
    case FaultKind::kStopWorker: ::raise(SIGSTOP); return;
    case FaultKind::kCutConnection: return actions_.cut(fault.other);
    case FaultKind::kCorruptCopy: return actions_.corrupt_copies();
    case FaultKind::kCorruptState: return actions_.corrupt_state();
    case FaultKind::kKillController: return kill_controller(options_.control);
    case FaultKind::kCorruptResult: return actions_.corrupt_result();
    case FaultKind::kSlowWorker: return slow_down_.begin(fault.factor, actions_.waits);
    case FaultKind::kPoisonSamples:
    case FaultKind::kLoseNode:
    case FaultKind::kReturnNode:
    case FaultKind::kNoticeNode:
    case FaultKind::kAddNode: return;  // have no moment: arm(), or the run's
  }
}

}  // namespace evermoe
