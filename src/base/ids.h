// Distinct integer types for the numbers of the domain, so that a rank cannot be passed as a step.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace evermoe {

// An integer that converts to nothing implicitly. `Name` only makes the type unique.
template <typename Name, typename Value>
struct StrongId {
  using value_type = Value;
  Value value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Value v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << id.value; }
  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value);
  }
};

// A process of the job in the current view: 0 .. world size - 1.
using Rank = StrongId<struct RankName, int32_t>;
// Optimizer updates applied since the initial state. The state at Step(n) has seen n updates.
using Step = StrongId<struct StepName, int64_t>;
// A numbered membership (role -> process).
using View = StrongId<struct ViewName, uint32_t>;
// Index of a micro-batch within a step, over the whole job: 0 .. micro_batches - 1.
using MicroBatch = StrongId<struct MicroBatchName, int32_t>;

}  // namespace evermoe
