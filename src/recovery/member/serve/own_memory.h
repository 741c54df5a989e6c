// The memory of this process as a destination of its own captures: it is there at once.
//
// Threads: any; SnapshotStore has its own mutex.
#pragma once

#include <algorithm>

#include "protection/snapshots/snapshot_store.h"
#include "recovery/member/serve/copy_destination.h"

namespace evermoe {

class OwnMemory final : public CopyDestination {
 public:
  // The store outlives it.
  OwnMemory(Rank rank, SnapshotStore& store) : rank_(rank), store_(store) {}

  void begin_window(Step, int) override {}
  void on_captured(SlotTime) override {}
  void adopt(const std::vector<SlotTime>&, int, const std::vector<Rank>&) override {}
  void give_up(SlotTime time) override { store_.drop(rank_, time); }
  bool is_settled() const override { return true; }
  Step complete_window() const override {
    Step newest(-1);
    for (const HeldWindow& held : store_.held()) {
      if (held.owner == rank_) newest = std::max(newest, held.window);
    }
    return newest;
  }
  void on_silence() override {}
  // With everything else of that age (RecoveryMemory).
  void forget_before(Step) override {}
  void forget_between(Step, Step) override {}
  void clear() override {}

  // NoCapacity if it is full.
  absl::Status add(const Chunk& chunk) override { return store_.add(chunk); }
  void suspend() override {}
  void work(const Pressure&) override {}
  bool has_room(bool) const override { return true; }
  absl::Duration pause(const Pressure&) override { return absl::InfiniteDuration(); }

 private:
  const Rank rank_;
  SnapshotStore& store_;
};

}  // namespace evermoe
