#include "protection/snapshots/snapshot_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::Status SnapshotStore::add(Chunk chunk) {
  const MutexLock lock(mutex_);
  const ChunkHeader& header = chunk.header();
  const auto size = static_cast<int64_t>(chunk.block().size());
  const Slot* const known = find(header.owner, {header.window, header.slot});
  if (known != nullptr && known->chunks.contains(header.chunk)) return absl::OkStatus();
  if (bytes_ + size > bytes_max_) {
    return NoCapacity(absl::StrCat("snapshots and copies would take ", bytes_ + size,
                                   " bytes, more than the limit of ", bytes_max_));
  }
  Window& window = windows_[{header.window, header.owner}];
  window.expected = header.slots;
  Slot& slot = window.slots[header.slot];
  slot.expected = header.chunks;
  slot.chunks.emplace(header.chunk, std::move(chunk));
  bytes_ += size;
  bytes_peak_ = std::max(bytes_peak_, bytes_);
  return absl::OkStatus();
}

const SnapshotStore::Slot* SnapshotStore::find(Rank owner, SlotTime time) const {
  const auto window = windows_.find({time.window, owner});
  if (window == windows_.end()) return nullptr;
  const auto slot = window->second.slots.find(time.slot);
  return slot == window->second.slots.end() ? nullptr : &slot->second;
}

bool SnapshotStore::has_slot(Rank owner, SlotTime time) const {
  const MutexLock lock(mutex_);
  const Slot* const slot = find(owner, time);
  return slot != nullptr && slot->complete();
}

std::vector<Chunk> SnapshotStore::slot(Rank owner, SlotTime time) const {
  return has_slot(owner, time) ? chunks(owner, time) : std::vector<Chunk>();
}

std::vector<Chunk> SnapshotStore::chunks(Rank owner, SlotTime time) const {
  const MutexLock lock(mutex_);
  std::vector<Chunk> chunks;
  const Slot* const slot = find(owner, time);
  if (slot == nullptr) return chunks;
  for (const auto& [index, chunk] : slot->chunks) chunks.push_back(chunk);
  return chunks;
}

std::vector<HeldWindow> SnapshotStore::held() const {
  const MutexLock lock(mutex_);
  std::vector<HeldWindow> held;
  for (const auto& [key, window] : windows_) {
    const auto complete =
        std::count_if(window.slots.begin(), window.slots.lower_bound(window.expected),
                      [](const auto& slot) { return slot.second.complete(); });
    if (window.expected > 0 && complete == window.expected)
      held.push_back({key.second, key.first, gradients_from(key.second, key.first)});
  }
  return held;
}

int64_t SnapshotStore::gradients_from(Rank owner, Step window) const {
  int64_t steps = 0;
  for (auto at = windows_.find({window, owner}); at != windows_.end();) {
    const auto& [slots, expected] = at->second;
    const int64_t before = steps;
    auto slot = slots.find(expected);
    while (slot != slots.end() && slot->second.complete() &&
           slot->first == expected + static_cast<int>(steps - before)) {
      ++steps;
      ++slot;
    }
    if (steps == before) break;
    at = windows_.find({Step(window.value + steps), owner});
  }
  return steps;
}

int64_t SnapshotStore::slot_bytes(Rank owner, SlotTime time) const {
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks(owner, time)) bytes += std::ssize(chunk.body());
  return bytes;
}

// The position that a role leaves behind last says how far it has come.
std::optional<HandedState> SnapshotStore::handed_in(Step base, const Window& window) {
  const auto is_complete = [&](int slot) {
    const auto found = window.slots.find(slot);
    return found != window.slots.end() && found->second.complete();
  };
  const auto stopped = window.slots.lower_bound(stopped_after_whole(0));
  if (stopped == window.slots.end() || !is_complete(kWholeState)) return std::nullopt;
  const int steps = stopped->first - stopped_after_whole(0);
  for (int step = 0; step < steps; ++step) {
    if (!is_complete(gradients_after_whole(step))) return std::nullopt;
  }
  return is_complete(stopped->first) ? std::optional(HandedState{base, steps}) : std::nullopt;
}

std::vector<WholeState> SnapshotStore::whole_states() const {
  const MutexLock lock(mutex_);
  std::set<WholeState> states;
  for (const auto& [key, window] : windows_) {
    const auto first = window.slots.find(0);
    if (window.expected == 1 && first != window.slots.end() && first->second.complete())
      states.insert({key.second, key.first});
    if (const auto handed = handed_in(key.first, window))
      states.insert({key.second, Step(handed->base.value + handed->steps)});
  }
  return {states.begin(), states.end()};
}

std::optional<HandedState> SnapshotStore::handed_state(Rank owner, Step state) const {
  const MutexLock lock(mutex_);
  for (const auto& [key, window] : windows_) {
    if (key.second != owner) continue;
    const auto handed = handed_in(key.first, window);
    if (handed && handed->base.value + handed->steps == state.value) return handed;
  }
  return std::nullopt;
}

std::vector<HeldSlot> SnapshotStore::held_slots(Rank owner) const {
  const MutexLock lock(mutex_);
  std::vector<HeldSlot> held;
  for (const auto& [key, window] : windows_) {
    if (key.second != owner) continue;
    for (const auto& [number, slot] : window.slots) {
      if (number < kWholeState && slot.complete())
        held.push_back({{key.first, number}, window.expected});
    }
  }
  return held;
}

std::vector<Step> SnapshotStore::windows(Rank owner) const {
  const MutexLock lock(mutex_);
  std::vector<Step> firsts;
  for (const auto& [key, window] : windows_) {
    if (key.second == owner) firsts.push_back(key.first);
  }
  return firsts;
}

std::vector<Rank> SnapshotStore::owners() const {
  const MutexLock lock(mutex_);
  std::set<Rank> owners;
  for (const auto& [key, window] : windows_) owners.insert(key.second);
  return {owners.begin(), owners.end()};
}

void SnapshotStore::forget(const Slot& slot) {
  for (const auto& [index, chunk] : slot.chunks)
    bytes_ -= static_cast<int64_t>(chunk.block().size());
}

void SnapshotStore::free_before(Step window) { free_between(Step(-1), window); }

void SnapshotStore::free_between(Step complete, Step end) {
  const MutexLock lock(mutex_);
  const auto last = windows_.lower_bound({end, Rank(0)});
  for (auto at = windows_.lower_bound({Step(complete.value + 1), Rank(0)}); at != last;
       at = windows_.erase(at)) {
    for (const auto& [index, slot] : at->second.slots) forget(slot);
  }
}

void SnapshotStore::drop_handed(Rank owner) {
  const MutexLock lock(mutex_);
  for (auto at = windows_.begin(); at != windows_.end();) {
    auto& slots = at->second.slots;
    if (at->first.second == owner) {
      const auto first = slots.lower_bound(kWholeState);
      for (auto slot = first; slot != slots.end(); ++slot) forget(slot->second);
      slots.erase(first, slots.end());
    }
    at = slots.empty() ? windows_.erase(at) : std::next(at);
  }
}

void SnapshotStore::keep_newest(Rank owner, int windows) {
  const MutexLock lock(mutex_);
  int left = windows;
  for (auto at = windows_.end(); at != windows_.begin();) {
    --at;
    const auto& slots = at->second.slots;
    const bool is_window = !slots.empty() && slots.begin()->first < kWholeState;
    if (at->first.second != owner || !is_window || --left >= 0) continue;
    for (const auto& [number, slot] : slots) forget(slot);
    at = windows_.erase(at);
  }
}

void SnapshotStore::drop_incomplete(Rank owner) {
  const MutexLock lock(mutex_);
  for (auto& [key, window] : windows_) {
    if (key.second != owner) continue;
    std::erase_if(window.slots, [&](const auto& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (slot.second.complete()) return false;
      forget(slot.second);
      return true;
    });
  }
}

void SnapshotStore::drop(Rank owner, SlotTime time) {
  const MutexLock lock(mutex_);
  const auto window = windows_.find({time.window, owner});
  if (window == windows_.end()) return;
  const auto slot = window->second.slots.find(time.slot);
  if (slot == window->second.slots.end()) return;
  forget(slot->second);
  window->second.slots.erase(slot);
}

void SnapshotStore::drop_window(Rank owner, Step window) {
  const MutexLock lock(mutex_);
  const auto found = windows_.find({window, owner});
  if (found == windows_.end()) return;
  for (const auto& [number, slot] : found->second.slots) forget(slot);
  windows_.erase(found);
}

void SnapshotStore::drop_all(Rank owner) {
  const MutexLock lock(mutex_);
  std::erase_if(windows_, [&](const auto& window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (window.first.second != owner) return false;
    for (const auto& [number, slot] : window.second.slots) forget(slot);
    return true;
  });
}

std::vector<Chunk> SnapshotStore::take_all() {
  const MutexLock lock(mutex_);
  std::vector<Chunk> all;
  for (auto& [key, window] : windows_) {
    for (auto& [number, slot] : window.slots) {
      for (auto& [index, chunk] : slot.chunks) all.push_back(std::move(chunk));
    }
  }
  windows_.clear();
  bytes_ = 0;
  return all;
}

void SnapshotStore::clear() {
  const MutexLock lock(mutex_);
  windows_.clear();
  bytes_ = 0;
}

int SnapshotStore::corrupt(Rank owner) {
  const MutexLock lock(mutex_);
  int count = 0;
  for (auto& [key, window] : windows_) {
    if (key.second != owner) continue;
    for (auto& [index, slot] : window.slots) {
      for (auto& [number, chunk] : slot.chunks) {
        if (chunk.body().empty()) continue;
        chunk.writable_body()[chunk.body().size() / 2] ^= std::byte{4};
        ++count;
      }
    }
  }
  return count;
}

int64_t SnapshotStore::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

int64_t SnapshotStore::bytes_peak() const {
  const MutexLock lock(mutex_);
  return bytes_peak_;
}

}  // namespace evermoe
