#include "protection/schedule/capture_schedule.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace evermoe {
namespace {

void append_chunks(ChunkRange whole, int64_t chunk_bytes_max, std::vector<ChunkRange>& chunks) {
  for (int64_t offset = 0; offset < whole.size; offset += chunk_bytes_max) {
    chunks.push_back(
        {whole.operator_index, whole.kind, offset, std::min(chunk_bytes_max, whole.size - offset)});
  }
}

}  // namespace

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

SlotTime CaptureSchedule::gradients_of(Step state) const {
  CHECK(state >= rule_.base) << "state " << state << " before the first window " << rule_.base;
  const auto since = static_cast<int>((state.value - rule_.base.value) % rule_.period);
  return {Step(state.value - since), rule_.slots + since};
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
    const auto index = static_cast<int>(i);
    const auto kind = schedule.kind_in(index, slot);
    if (!kind) continue;
    const int64_t bytes = *kind == SnapshotKind::kFull ? operators[i].full : operators[i].compute;
    append_chunks({index, *kind, 0, bytes}, chunk_bytes_max, chunks);
  }
  return chunks;
}

std::vector<ChunkRange> chunks_of_whole_state(const std::vector<OperatorBytes>& operators,
                                              int64_t position_bytes, int64_t chunk_bytes_max) {
  const CaptureSchedule at_once(WindowRule{}, std::vector<int>(operators.size(), 0));
  return chunks_of_slot(at_once, 0, operators, position_bytes, chunk_bytes_max);
}

std::vector<ChunkRange> chunks_of_gradients(const std::vector<OperatorBytes>& operators,
                                            int64_t position_bytes, int64_t chunk_bytes_max) {
  constexpr auto kKind = SnapshotKind::kGradients;
  std::vector<ChunkRange> chunks{{.kind = kKind, .size = position_bytes}};
  for (size_t i = 0; i < operators.size(); ++i)
    append_chunks({static_cast<int>(i), kKind, 0, operators[i].gradients}, chunk_bytes_max, chunks);
  return chunks;
}

}  // namespace evermoe
