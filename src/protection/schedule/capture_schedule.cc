#include "protection/schedule/capture_schedule.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace evermoe {

CaptureSchedule::CaptureSchedule(WindowRule rule, std::vector<int> slot_of)
    : rule_(rule), slot_of_(std::move(slot_of)) {
  CHECK(rule_.slots >= 1 && rule_.slots <= rule_.period)
      << rule_.slots << " slots in " << rule_.period << " steps";
  for (const int slot : slot_of_)
    CHECK(slot >= 0 && slot < rule_.slots) << "slot " << slot << " of " << rule_.slots;
}

std::optional<SlotTime> CaptureSchedule::time_of(Step state) const {
  if (state < rule_.base) return std::nullopt;
  const int64_t since = state.value - rule_.base.value;
  const auto slot = static_cast<int>(since % rule_.period);
  if (slot >= rule_.slots) return std::nullopt;
  return SlotTime{Step(state.value - slot), slot};
}

std::optional<SnapshotKind> CaptureSchedule::kind_in(int operator_index, int slot) const {
  const int own = slot_of(operator_index);
  if (own < slot) return std::nullopt;
  return own == slot ? SnapshotKind::kFull : SnapshotKind::kComputeOnly;
}

std::vector<ChunkRange> chunks_of_slot(const CaptureSchedule& schedule, int slot,
                                       const std::vector<OperatorBytes>& operators,
                                       int64_t position_bytes, int64_t chunk_bytes_max) {
  std::vector<ChunkRange> chunks{{.size = position_bytes}};
  for (size_t i = 0; i < operators.size(); ++i) {
    const auto kind = schedule.kind_in(static_cast<int>(i), slot);
    if (!kind) continue;
    const int64_t bytes = *kind == SnapshotKind::kFull ? operators[i].full : operators[i].compute;
    for (int64_t offset = 0; offset < bytes; offset += chunk_bytes_max) {
      chunks.push_back(
          {static_cast<int>(i), *kind, offset, std::min(chunk_bytes_max, bytes - offset)});
    }
  }
  return chunks;
}

}  // namespace evermoe
