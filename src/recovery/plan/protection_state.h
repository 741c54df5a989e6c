// How well a rank is protected at the end of a step, and what that cost it: for people and plots.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace evermoe {

struct ProtectionState {
  int window_steps = 0;          // of the window under way
  Step complete_window{-1};      // first state of the newest complete window; -1: none yet
  int64_t log_bytes = 0;         // boundary messages kept for others
  int64_t snapshot_bytes = 0;    // own snapshots and the copies kept of others
  int64_t captured_bytes = 0;    // of snapshots, in this process; as many go to each holder
  double read_wait_seconds = 0;  // that the optimizer has waited for captures, in this process
  double copy_wait_seconds = 0;  // that steps have waited for copies
  double copying_seconds =
      0;  // that a processor has worked on snapshots and copies of this process
  friend bool operator==(const ProtectionState&, const ProtectionState&) = default;
};

}  // namespace evermoe
