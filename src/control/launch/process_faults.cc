#include "control/launch/process_faults.h"

#include "base/log.h"
#include "faults/injected_faults.h"

namespace evermoe {
namespace {

FaultScript of_processes(const FaultScript& script) {
  FaultScript own;
  for (const Fault& fault : script.faults) {
    if (!is_of_worker_itself(fault.kind)) own.faults.push_back(fault);
  }
  return own;
}

}  // namespace

ProcessFaults::ProcessFaults(const FaultScript& script, const std::set<int>& injected,
                             std::string injected_path, absl::Duration began)
    : injected_path_(std::move(injected_path)),
      began_(began),
      timed_(of_processes(script), injected) {
  for (const Fault& fault : script.faults) {
    if (fault.after_step && !injected.contains(fault.index)) by_step_.push_back(fault);
  }
}

void ProcessFaults::inject_once(const Fault& fault,
                                const std::function<void(const Fault&)>& inject) const {
  const absl::Status kept = add_injected_fault(injected_path_, fault.index);
  if (kept.ok())
    inject(fault);
  else
    log_error("a fault is left out: " + std::string(kept.message()));
}

void ProcessFaults::inject_after(Step step, const std::function<void(const Fault&)>& inject) {
  const auto is_due = [step](const Fault& fault) { return *fault.after_step <= step; };
  for (const Fault& fault : by_step_) {
    if (is_due(fault)) inject_once(fault, inject);
  }
  std::erase_if(by_step_, is_due);
}

void ProcessFaults::inject_due(absl::Duration now,
                               const std::function<void(const Fault&)>& inject) {
  for (const Fault& fault : timed_.due(absl::ToDoubleSeconds(now - began_)))
    inject_once(fault, inject);
}

absl::Duration ProcessFaults::next() const {
  const auto seconds = timed_.next_seconds();
  return seconds ? began_ + absl::Seconds(*seconds) : absl::InfiniteDuration();
}

}  // namespace evermoe
