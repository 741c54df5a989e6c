#include "recovery/member/restore/slot_restore.h"

#include "base/error.h"

namespace evermoe {

absl::Status restore_slot(
    const SnapshotStore& store, Rank rank, SlotTime time, StageTrainer& trainer,
    const std::function<absl::Status(std::span<const std::byte> position)>& on_position) {
  if (!store.has_slot(rank, time)) return Cancelled("all resume: the copies have been cleared");
  for (const Chunk& chunk : store.slot(rank, time)) {
    RETURN_IF_ERROR(chunk.verify());
    const ChunkHeader& header = chunk.header();
    if (header.operator_index < 0) {
      RETURN_IF_ERROR(on_position(chunk.body()));
    } else {
      trainer.restore(header.operator_index, header.kind, header.offset, chunk.body());
    }
  }
  return absl::OkStatus();
}

}  // namespace evermoe
