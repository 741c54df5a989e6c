#include "faults/fault_trigger.h"

namespace evermoe {
namespace {

bool counts_passings_of(const Fault& fault, FaultRole role, int node) {
  return fault.kind == FaultKind::kKillNode ? fault.node == node : fault.role == role;
}

bool is_met(const FaultMoment& moment, const char* point, Step step_under_way,
            int recovery_number) {
  if (moment.point != point) return false;
  if (moment.step && *moment.step != step_under_way) return false;
  return !moment.recovery || *moment.recovery == recovery_number;
}

}  // namespace

FaultTrigger::FaultTrigger(const FaultScript& script, FaultRole role, int node,
                           const std::set<int>& injected) {
  for (const Fault& fault : script.faults) {
    if (!fault.moment || injected.contains(fault.index)) continue;
    if (counts_passings_of(fault, role, node)) pending_.push_back({fault});
  }
}

std::vector<Fault> FaultTrigger::on_point(const char* point, Step step_under_way,
                                          int recovery_number) {
  std::vector<Fault> due;
  for (Pending& pending : pending_) {
    const FaultMoment& moment = *pending.fault.moment;
    if (!is_met(moment, point, step_under_way, recovery_number)) continue;
    if (pending.passed++ == moment.reached) due.push_back(pending.fault);
  }
  std::erase_if(pending_, [](const Pending& pending) {
    return pending.passed > pending.fault.moment->reached;
  });
  return due;
}

}  // namespace evermoe
