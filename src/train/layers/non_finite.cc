#include "train/layers/non_finite.h"

namespace evermoe {
namespace {

// From the highest bits: turn (0: before all micro-batches, then their number + 1, then after all),
// phase, place.
constexpr int kPhaseShift = 32, kTurnShift = 36;
constexpr int64_t kAfterAll = int64_t{1} << 24;
constexpr int64_t kPlaceMask = (int64_t{1} << kPhaseShift) - 1;

}  // namespace

const char* to_string(NonFinitePhase phase) {
  switch (phase) {
    case NonFinitePhase::kState: return "state";
    case NonFinitePhase::kValidation: return "validation loss";
    case NonFinitePhase::kForward: return "forward";
    case NonFinitePhase::kBackward: return "backward";
    case NonFinitePhase::kWeightGradient: return "weight gradient";
  }
  return "?";
}

int64_t to_key(const NonFinite& place) {
  const bool is_last = place.phase == NonFinitePhase::kWeightGradient;
  const int64_t turn = is_last ? kAfterAll : int64_t{place.micro_batch} + 1;
  const bool is_backward = place.phase == NonFinitePhase::kBackward;
  const int64_t index = is_backward ? kPlaceMask - place.operator_index : place.operator_index;
  return turn << kTurnShift | static_cast<int64_t>(place.phase) << kPhaseShift | index;
}

std::optional<NonFinite> from_key(int64_t key) {
  if (key == kAllFinite) return std::nullopt;
  NonFinite place;
  place.phase = static_cast<NonFinitePhase>(key >> kPhaseShift & 0xf);
  const int64_t turn = key >> kTurnShift, index = key & kPlaceMask;
  place.micro_batch = turn == kAfterAll ? -1 : static_cast<int32_t>(turn - 1);
  const bool is_backward = place.phase == NonFinitePhase::kBackward;
  place.operator_index = static_cast<int32_t>(is_backward ? kPlaceMask - index : index);
  return place;
}

}  // namespace evermoe
