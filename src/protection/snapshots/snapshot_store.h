// The snapshots that a process holds in memory: its own, and the copies of its peers.
//
// Threads: any. The bytes of stored chunks never change (but for corrupt(), for tests).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "protection/snapshots/chunk.h"

namespace evermoe {

// A window that is held in full.
struct HeldWindow {
  Rank owner;
  Step window;
  int64_t gradients = 0;  // of so many steps, from its first state on, are held too
  friend auto operator<=>(const HeldWindow&, const HeldWindow&) = default;
};

// The whole state of a role that is held: all that a process needs to play it from there on.
struct WholeState {
  Rank owner;
  Step state;
  friend auto operator<=>(const WholeState&, const WholeState&) = default;
};

// The same in the slots of a hand-over: the state at `base`, and the gradients of `steps` from
// there.
struct HandedState {
  Step base;
  int steps = 0;
  friend bool operator==(const HandedState&, const HandedState&) = default;
};

// A slot of a window that is held in full.
struct HeldSlot {
  SlotTime time;
  int slots = 1;  // of its window, without gradients
  friend bool operator==(const HeldSlot&, const HeldSlot&) = default;
};

class SnapshotStore {
 public:
  explicit SnapshotStore(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Keeps a chunk; one that is there already is kept as it was. NoCapacity beyond the limit.
  absl::Status add(Chunk chunk);

  bool has_slot(Rank owner, SlotTime time) const;
  // The chunks of a complete slot in order; empty if it is not complete.
  std::vector<Chunk> slot(Rank owner, SlotTime time) const;
  // What is there of a slot, complete or not, in order.
  std::vector<Chunk> chunks(Rank owner, SlotTime time) const;
  // Windows of which every slot is complete, in order. Their gradients may lie in later windows,
  // too, complete or not.
  std::vector<HeldWindow> held() const;
  // Of the chunks' contents.
  int64_t slot_bytes(Rank owner, SlotTime time) const;
  // In order: windows of one slot, and states that were handed over in full.
  std::vector<WholeState> whole_states() const;
  // What of a hand-over makes up the owner's state at `state`.
  std::optional<HandedState> handed_state(Rank owner, Step state) const;
  // Slots that are complete, in order, but those of a hand-over.
  std::vector<HeldSlot> held_slots(Rank owner) const;
  // First states of the windows of which anything is held, in order.
  std::vector<Step> windows(Rank owner) const;
  // Of whom anything is held, in order.
  std::vector<Rank> owners() const;

  // Forgets windows that begin before `window`, of all owners.
  void free_before(Step window);
  // Forgets windows that begin after `complete` and before `end`, of all owners.
  void free_between(Step complete, Step end);
  // Forgets what was handed over of the owner.
  void drop_handed(Rank owner);
  // Forgets all of the owner's windows but so many newest ones.
  void keep_newest(Rank owner, int windows);
  // Forgets slots that are not complete: their capture was broken off.
  void drop_incomplete(Rank owner);
  void drop(Rank owner, SlotTime time);
  void drop_window(Rank owner, Step window);
  void drop_all(Rank owner);
  void clear();
  // Gives away all that is there.
  std::vector<Chunk> take_all();

  // A fault for tests: flips a bit in every chunk held of `owner`. Returns how many.
  int corrupt(Rank owner);

  int64_t bytes() const;
  int64_t bytes_peak() const;
  int64_t bytes_max() const { return bytes_max_; }

 private:
  struct Slot {
    std::map<int, Chunk> chunks;
    int expected = 0;
    bool complete() const { return expected > 0 && static_cast<int>(chunks.size()) == expected; }
  };
  struct Window {
    std::map<int, Slot> slots;
    int expected = 0;
  };
  using Key = std::pair<Step, Rank>;  // by window first: freeing takes a range

  const Slot* find(Rank owner, SlotTime time) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Steps from the first state of this window on whose gradients are held without a gap.
  int64_t gradients_from(Rank owner, Step window) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::optional<HandedState> handed_in(Step base, const Window& window);
  void forget(const Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t bytes_max_;
  mutable Mutex mutex_;
  std::map<Key, Window> windows_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_peak_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace evermoe
