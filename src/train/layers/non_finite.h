// Where a step met the first number that is not finite. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace evermoe {

enum class NonFinitePhase : uint8_t { kState, kValidation, kForward, kBackward, kWeightGradient };

const char* to_string(NonFinitePhase phase);

struct NonFinite {
  NonFinitePhase phase = NonFinitePhase::kState;
  int32_t micro_batch = -1;    // -1 where it is of none: state, validation, gradients of weights
  int32_t operator_index = 0;  // in model_operators()

  friend bool operator==(const NonFinite&, const NonFinite&) = default;
};

// A number that is smaller the earlier the place comes in the order of a step: state, then
// micro-batch by micro-batch the forward pass along the model and the backward pass against it,
// then gradients of weights. So ranks agree on the first place by a minimum. kAllFinite: there is
// no such place.
inline constexpr int64_t kAllFinite = std::numeric_limits<int64_t>::max();
int64_t to_key(const NonFinite& place);
std::optional<NonFinite> from_key(int64_t key);

}  // namespace evermoe
