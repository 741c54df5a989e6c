// The memory that protection takes on one rank, before it is taken. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "protection/strategy/strategy.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

// Bytes at most, in whatever order operators are captured: whatever comes last is kept compute-only
// in every slot before.
struct MemoryNeed {
  int64_t snapshots = 0;  // the complete window and the one being made, its own
  int64_t gradients = 0;  // of the steps since the complete window, its own
  int64_t copies = 0;     // the same of the peers whose copies it keeps
  int64_t log = 0;  // boundary messages: of two windows and the step under way, or of three steps
  int64_t total() const { return snapshots + gradients + copies + log; }
};

// What does not depend on the length of windows.
struct MemoryConditions {
  const Strategy& strategy;
  int copies = 1;  // of each rank's windows; peers are taken to be as large as this rank
  int64_t boundary_bytes = 0;  // that the rank sends across its boundaries in a step
};
MemoryNeed memory_need(std::span<const OperatorBytes> operators, int slots,
                       const MemoryConditions& conditions);

// The longest window, up to the strategy's greatest, whose need is within `budget`; 0 if not even
// one slot is.
int longest_window(std::span<const OperatorBytes> operators, const MemoryConditions& conditions,
                   int64_t budget);

// InvalidInput with the arithmetic unless the need is within `budget`.
absl::Status check_budget(const MemoryNeed& need, int64_t budget, int slots, int copies);

}  // namespace evermoe
