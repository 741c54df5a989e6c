#include "faults/fault_trigger.h"

#include "faults/fault_points.h"

namespace evermoe {
namespace {

bool counts_passings_of(const Fault& fault, FaultRole role, int node) {
  return fault.kind == FaultKind::kKillNode ? fault.node == node : fault.role == role;
}

bool is_step_met(const FaultMoment& moment, Step under_way) {
  if (!moment.step) return true;
  return is_beside_the_step(moment.point) ? under_way >= *moment.step : under_way == *moment.step;
}

bool is_met(const Fault& fault, const char* point, Step step_under_way, int recovery_number) {
  const FaultMoment& moment = *fault.moment;
  if (moment.point != point) return false;
  // Whom a loss has brought is no joiner of a move.
  if (fault.kind == FaultKind::kKillJoiner && recovery_number != 0) return false;
  if (!is_step_met(moment, step_under_way)) return false;
  return !moment.recovery || *moment.recovery == recovery_number;
}

}  // namespace

FaultTrigger::FaultTrigger(const FaultScript& script, FaultRole role, int node,
                           const std::set<int>& injected, bool is_newcomer) {
  for (const Fault& fault : script.faults) {
    if (!fault.moment || injected.contains(fault.index)) continue;
    if (fault.kind == FaultKind::kKillJoiner && !is_newcomer) continue;
    if (counts_passings_of(fault, role, node)) pending_.push_back({fault});
  }
}

std::vector<Fault> FaultTrigger::on_point(const char* point, Step step_under_way,
                                          int recovery_number) {
  std::vector<Fault> due;
  for (Pending& pending : pending_) {
    if (!is_met(pending.fault, point, step_under_way, recovery_number)) continue;
    if (pending.passed++ == pending.fault.moment->reached) due.push_back(pending.fault);
  }
  std::erase_if(pending_, [](const Pending& pending) {
    return pending.passed > pending.fault.moment->reached;
  });
  return due;
}

}  // namespace evermoe
