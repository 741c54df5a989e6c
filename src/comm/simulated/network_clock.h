// A simulated network's time, as the clock of what runs in it.
#pragma once

#include "base/check.h"
#include "comm/simulated/simulated_network.h"
#include "env/clock.h"

namespace evermoe {

// The network outlives it.
class NetworkClock final : public Clock {
 public:
  explicit NetworkClock(SimulatedNetwork& network) : network_(network) {}
  absl::Duration now() override { return network_.now(); }
  void sleep_until(absl::Duration) override { CHECK(false) << "processes wait in their transport"; }
  absl::Duration thread_time() override { return absl::ZeroDuration(); }
  absl::Time wall_now() override { return absl::UnixEpoch() + network_.now(); }

 private:
  SimulatedNetwork& network_;
};

}  // namespace evermoe
