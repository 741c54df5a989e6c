// What agents and workers write into their logs of an incident (RecoveryRecord::incident), so that
// the lines of all machines that belong together are found by one number. Decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "control/wire/control_messages.h"

namespace evermoe {

// Of one process. One thread at a time.
class IncidentLines {
 public:
  // The line that an order of the controller deserves; nullopt: it belongs to no incident, or the
  // same has been said of this view.
  std::optional<std::string> on_order(const ControllerMessage& order);
  // For an agent, which hears what is meant for all its workers.
  std::optional<std::string> on_envelope(const ControlMessage& message);

 private:
  std::optional<std::string> on_stop(const StopOrder& stop);
  std::optional<std::string> on_plan(const Plan& plan);

  std::pair<View, int64_t> stopped_;  // told of, and the incident of that
};

}  // namespace evermoe
