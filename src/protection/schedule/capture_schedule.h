// Which operators a rank snapshots after which step, and how. Pure.
//
// Windows follow each other from the state at `base`: the k-th begins with the state at base + k *
// period and has `slots` slots. Slot j is taken of the state j steps after the window's first: the
// operators of slot j in full, those of later slots compute-only, those of earlier slots not at
// all, because a catch-up has them by then (MoEtion section 3.2). The slots are the same on all
// lanes of a stage, the number of slots and the period on all ranks of the job: windows are
// aligned.
//
// Where gradients are kept (protection.strategy = "gradients"), those of each step lie behind the
// slots of the window under way: whoever has a window and them comes to later states by updates
// alone.
//
// A role that is handed over gives a state whole to the process that takes it, and the gradients of
// the steps until it stops, in slots of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace evermoe {

enum class SnapshotKind : uint8_t {
  kFull,
  kComputeOnly,
  kGradients,  // of a step, summed over the operator's owners
};

// An operator as a strategy sees it on one rank: bytes of the rank's shard, zero if it has none.
struct OperatorBytes {
  int64_t full = 0;
  int64_t compute = 0;
  int64_t gradients = 0;
};

struct SlotTime {
  Step window;   // the window's first state; names the window
  int slot = 0;  // from the window's number of slots on: the gradients of its steps, in order
  friend bool operator==(const SlotTime&, const SlotTime&) = default;
};

// Slots of a role that is handed over, named by the state that is given whole: first all operators
// of it in full,
inline constexpr int kWholeState = 1 << 28;
// then the gradients of the steps from there on, in order,
inline constexpr int gradients_after_whole(int step) { return kWholeState + 1 + step; }
// and at last the position alone, of the state so many steps later at which the role has stopped.
inline constexpr int stopped_after_whole(int steps) { return (1 << 29) + steps; }
inline bool is_of_hand_over(SlotTime time) { return time.slot >= kWholeState; }

// Chunk `index` of a slot: a part of one operator's snapshot, small enough to be moved at once.
struct ChunkRange {
  int operator_index = -1;  // -1: the trainer's position, first in every slot
  SnapshotKind kind = SnapshotKind::kFull;
  int64_t offset = 0;  // bytes from the beginning of the operator's snapshot
  int64_t size = 0;
};

// When windows begin and how many slots they have, until further notice.
struct WindowRule {
  Step base;  // a window begins with this state
  int32_t slots = 1;
  int32_t period = 1;
  bool is_first_of_window(Step state) const {
    return state >= base && (state.value - base.value) % period == 0;
  }
  friend bool operator==(const WindowRule&, const WindowRule&) = default;
};

class CaptureSchedule {
 public:
  // slot_of[i] is the slot in which operator i is taken in full. REQUIRES: 1 <= slots <= period,
  // 0 <= slot_of[i] < slots.
  CaptureSchedule(WindowRule rule, std::vector<int> slot_of);

  const WindowRule& rule() const { return rule_; }
  int slots() const { return rule_.slots; }
  int slot_of(int operator_index) const { return slot_of_[static_cast<size_t>(operator_index)]; }

  // What is taken of the state at `state`; nullopt if nothing is.
  std::optional<SlotTime> time_of(Step state) const;
  // Where the gradients of the step from `state` are kept. REQUIRES: state >= rule().base.
  SlotTime gradients_of(Step state) const;
  Step state_of(SlotTime time) const { return Step(time.window.value + time.slot); }

  // nullopt: not in this slot.
  std::optional<SnapshotKind> kind_in(int operator_index, int slot) const;
  // Whether the operator is dense once slot `slot` of a window has been restored.
  bool is_active_after(int operator_index, int slot) const {
    return slot_of(operator_index) <= slot;
  }

 private:
  WindowRule rule_;
  std::vector<int> slot_of_;
};

// The chunks of a slot on the rank with these shards: the position (`position_bytes` long), then
// the operators in order, each cut into chunks of at most `chunk_bytes_max`.
std::vector<ChunkRange> chunks_of_slot(const CaptureSchedule& schedule, int slot,
                                       const std::vector<OperatorBytes>& operators,
                                       int64_t position_bytes, int64_t chunk_bytes_max);
// The same for a whole state.
std::vector<ChunkRange> chunks_of_whole_state(const std::vector<OperatorBytes>& operators,
                                              int64_t position_bytes, int64_t chunk_bytes_max);
// The same for the gradients of a step.
std::vector<ChunkRange> chunks_of_gradients(const std::vector<OperatorBytes>& operators,
                                            int64_t position_bytes, int64_t chunk_bytes_max);

}  // namespace evermoe
