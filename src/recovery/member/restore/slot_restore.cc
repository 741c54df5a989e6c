#include "recovery/member/restore/slot_restore.h"

#include "base/error.h"

namespace evermoe {

absl::Status restore_chunks(const std::vector<Chunk>& chunks, StageTrainer& trainer,
                            const OnPosition& on_position) {
  for (const Chunk& chunk : chunks) {
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

absl::Status restore_slot(const SnapshotStore& store, Rank rank, SlotTime time,
                          StageTrainer& trainer, const OnPosition& on_position) {
  if (!store.has_slot(rank, time)) return Cancelled("all resume: the copies have been cleared");
  return restore_chunks(store.slot(rank, time), trainer, on_position);
}

}  // namespace evermoe
