// Measures the health of this machine (node_health.h) but for its date, which needs a controller.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/health/node_health.h"
#include "env/clock.h"
#include "env/files.h"

namespace evermoe {

// The doors through which it looks. Any thread; what they hold outlives the measurement.
struct HealthReaders {
  std::function<std::optional<int64_t>()> memory;
  Files* files = nullptr;
  Clock* clock = nullptr;
  std::function<absl::Status()> tcp;
  std::function<absl::Status(const std::string& folder)> local_socket;
};
HealthReaders real_readers();

struct HealthPlaces {
  std::string own;     // folder of this machine, for its sockets
  std::string shared;  // folder in the job's, which all machines see
};

// `on_part` hears what is measured next: a disk may keep it waiting for ever.
NodeHealth measure_health(const HealthReaders& readers, const HealthPlaces& places,
                          const std::function<void(const std::string& part)>& on_part);

}  // namespace evermoe
