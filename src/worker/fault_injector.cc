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
#include "faults/struck_faults.h"

namespace evermoe {
namespace {

// The run sees to processes; what is between workers only they can reach.
FaultScript timed_of(const FaultScript& script, FaultRole role) {
  FaultScript own;
  for (const Fault& fault : script.faults) {
    const bool between_workers = fault.kind == FaultKind::kCutConnection || fault.kind == FaultKind::kCorruptCopy;
    if (fault.after_seconds && between_workers && fault.role == role) own.faults.push_back(fault);
  }
  return own;
}

void kill_controller(const std::string& control) {
  std::ifstream file(control);
  const auto pids = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!pids.is_object() || !pids.contains("controller")) return log_warning(control + " names no controller");
  ::kill(pids.at("controller").get<pid_t>(), SIGKILL);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultInjector>> FaultInjector::arm(Files& files, Clock& clock, FaultInjectorOptions options,
                                                                  FaultLimits limits, FaultHands hands) {
  ASSIGN_OR_RETURN(const FaultScript script, load_fault_script(files, options.script, limits));
  ASSIGN_OR_RETURN(const std::set<int> struck, read_struck_faults(options.struck));
  std::unique_ptr<FaultInjector> injector(new FaultInjector(clock, std::move(options), std::move(hands), script, struck));
  arm_fault_points([own = injector.get()](const char* point, int64_t) { own->on_point(point); });
  return injector;
}

FaultInjector::FaultInjector(Clock& clock, FaultInjectorOptions options, FaultHands hands, const FaultScript& script,
                             const std::set<int>& struck)
    : clock_(clock), options_(std::move(options)), hands_(std::move(hands)),
      trigger_(script, options_.role, options_.node, struck), timed_(timed_of(script, options_.role), struck) {}

FaultInjector::~FaultInjector() { arm_fault_points({}); }

void FaultInjector::on_point(const char* point) {
  if (std::strcmp(point, "step/forward") == 0) step_under_way_ = hands_.step().value + 1;
  std::vector<Fault> striking;
  {
    const std::lock_guard lock(mutex_);
    striking = trigger_.on_point(point, Step(step_under_way_), hands_.recovery());
    for (const Fault& fault : timed_.due(absl::ToDoubleSeconds(clock_.now() - options_.job_began))) striking.push_back(fault);
  }
  for (const Fault& fault : striking) strike(fault);
}

void FaultInjector::strike(const Fault& fault) {
  log_warning(absl::StrCat("a rehearsed fault strikes: ", to_string(fault)));
  if (const absl::Status kept = add_struck_fault(options_.struck, fault.index); !kept.ok()) {
    return log_error(absl::StrCat("the fault is left out: ", kept.message()));
  }
  switch (fault.kind) {
    case FaultKind::kKillWorker:
      ::kill(::getpid(), SIGKILL);
      return;
    case FaultKind::kKillNode:
      ::kill(0, SIGKILL);  // an agent and its workers are one process group
      return;
    case FaultKind::kStopWorker:
      ::raise(SIGSTOP);
      return;
    case FaultKind::kCutConnection:
      return hands_.cut(fault.other);
    case FaultKind::kCorruptCopy:
      return hands_.spoil_copies();
    case FaultKind::kKillController:
      return kill_controller(options_.control);
  }
}

}  // namespace evermoe
