// Directions between machines in which nothing arrives for a while, and what waits for their end.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "comm/simulated/simulated_threads.h"

namespace evermoe {

class SimulatedBlocks {
 public:
  // `threads` outlives it, and need not live yet.
  explicit SimulatedBlocks(SimulatedThreads& threads) : threads_(threads) {}

  void block(Machine from, Machine to, absl::Duration time);
  // When it is over; the past if nothing is blocked.
  absl::Duration until(Machine from, Machine to) const;
  // Whether it is blocked and has been since `time`, without a gap.
  bool is_blocked_since(Machine from, Machine to, absl::Duration time) const;
  // True if the direction is blocked: then `what` runs as an event at its end, behind all that has
  // been held there before.
  bool hold(Machine from, Machine to, std::function<void()> what);

 private:
  struct Direction {
    absl::Duration since;
    absl::Duration until;
    std::vector<std::function<void()>> held;
  };

  void release(Direction& direction);

  SimulatedThreads& threads_;
  std::map<std::pair<Machine, Machine>, Direction> directions_;  // never erased
};

}  // namespace evermoe
