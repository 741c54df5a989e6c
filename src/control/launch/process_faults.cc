#include "control/launch/process_faults.h"

#include "base/log.h"
#include "faults/struck_faults.h"

namespace evermoe {
namespace {

FaultScript of_processes(const FaultScript& script) {
  FaultScript own;
  for (const Fault& fault : script.faults) {
    if (fault.kind != FaultKind::kCutConnection && fault.kind != FaultKind::kCorruptCopy) own.faults.push_back(fault);
  }
  return own;
}

}  // namespace

ProcessFaults::ProcessFaults(const FaultScript& script, const std::set<int>& struck, std::string struck_path, absl::Duration began)
    : struck_path_(std::move(struck_path)), began_(began), timed_(of_processes(script), struck) {}

void ProcessFaults::strike_due(absl::Duration now, const std::function<void(const Fault&)>& strike) {
  for (const Fault& fault : timed_.due(absl::ToDoubleSeconds(now - began_))) {
    const absl::Status kept = add_struck_fault(struck_path_, fault.index);
    if (kept.ok()) strike(fault);
    else log_error("a fault is left out: " + std::string(kept.message()));
  }
}

absl::Duration ProcessFaults::next() const {
  const auto seconds = timed_.next_seconds();
  return seconds ? began_ + absl::Seconds(*seconds) : absl::InfiniteDuration();
}

}  // namespace evermoe
