// Brings a slot of a rank's own snapshots from its store into the trainer.
#pragma once

#include <functional>
#include <span>

#include "absl/status/status.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

// `on_position` gets the position that was captured with the slot, first. Corrupt if a chunk is not
// what was captured. Training thread.
absl::Status restore_slot(
    const SnapshotStore& store, Rank rank, SlotTime time, StageTrainer& trainer,
    const std::function<absl::Status(std::span<const std::byte> position)>& on_position);

}  // namespace evermoe
