// Brings a slot of a rank's own snapshots into the trainer.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

// Gets the position that was captured with the slot, before anything else of it is restored.
using OnPosition = std::function<absl::Status(std::span<const std::byte> position)>;

// The slot's chunks in order. Corrupt if one is not what was captured. Training thread.
absl::Status restore_chunks(const std::vector<Chunk>& chunks, StageTrainer& trainer,
                            const OnPosition& on_position);

// Likewise, of a slot that is in the store.
absl::Status restore_slot(const SnapshotStore& store, Rank rank, SlotTime time,
                          StageTrainer& trainer, const OnPosition& on_position);

}  // namespace evermoe
