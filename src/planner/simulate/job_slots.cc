#include "planner/simulate/job_slots.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace evermoe {
namespace {

bool contains(std::span<const int> ascending, int value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

}  // namespace

JobSlots::JobSlots(int slots, int nodes, int racks)
    : node_of_(static_cast<size_t>(slots), -1), slot_of_(static_cast<size_t>(nodes), -1) {
  CHECK(slots >= 1 && nodes >= 0 && racks >= 0);
  for (int slot = 0; slot < slots; ++slot) vacant_.insert(slot);
  if (racks > 1) stride_ = (slots + racks - 1) / racks;
}

void JobSlots::add(std::span<const int> nodes) {
  for (const int node : nodes) {
    const bool is_new = slot_of_[static_cast<size_t>(node)] < 0 && spares_.insert(node).second;
    CHECK(is_new) << "node " << node << " came twice";
  }
}

int JobSlots::spares_among(std::span<const int> nodes) const {
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(), [&](int node) { return spares_.contains(node); }));
}

std::vector<int> JobSlots::slots_of(std::span<const int> nodes) const {
  std::vector<int> slots;
  for (const int node : nodes) {
    if (slot_of_[static_cast<size_t>(node)] >= 0)
      slots.push_back(slot_of_[static_cast<size_t>(node)]);
  }
  std::sort(slots.begin(), slots.end());
  return slots;
}

std::vector<int> JobSlots::remove(std::span<const int> nodes) {
  std::vector<int> slots = slots_of(nodes);
  for (const int node : nodes) {
    slot_of_[static_cast<size_t>(node)] = -1;
    spares_.erase(node);
  }
  for (const int slot : slots) {
    node_of_[static_cast<size_t>(slot)] = -1;
    vacant_.insert(slot);
    --filled_;
  }
  return slots;
}

void JobSlots::fill() {
  while (!vacant_.empty() && !spares_.empty()) {
    const int slot = *vacant_.begin(), node = *spares_.begin();
    vacant_.erase(vacant_.begin());
    spares_.erase(spares_.begin());
    node_of_[static_cast<size_t>(slot)] = node;
    slot_of_[static_cast<size_t>(node)] = slot;
    ++filled_;
  }
}

bool JobSlots::copies_survive(std::span<const int> lost, std::span<const int> bare,
                              int copies) const {
  for (const int slot : lost) {
    bool is_held = false;
    for (int copy = 1; copy <= copies && !is_held; ++copy) {
      const int holder = static_cast<int>((slot + int64_t{copy} * stride_) % slots());
      is_held = holder != slot && !contains(lost, holder) && !contains(bare, holder);
    }
    if (!is_held) return false;
  }
  return true;
}

std::vector<int> JobSlots::filled_slots() const {
  std::vector<int> filled;
  for (int slot = 0; slot < slots(); ++slot) {
    if (node_of_[static_cast<size_t>(slot)] >= 0) filled.push_back(slot);
  }
  return filled;
}

int JobSlots::adjacent_stages(std::span<const int> slots, int stages) const {
  std::set<int> hit;
  const int64_t count = this->slots();
  for (const int64_t slot : slots) {
    // A slot of a narrow stage holds several.
    const int64_t first = slot * stages / count,
                  last = std::max(first, ((slot + 1) * stages - 1) / count);
    for (int64_t stage = first; stage <= last; ++stage) hit.insert(static_cast<int>(stage));
  }
  int longest = 0, run = 0, before = -2;
  for (const int stage : hit) {
    run = stage == before + 1 ? run + 1 : 1;
    longest = std::max(longest, run);
    before = stage;
  }
  return longest;
}

bool replicas_survive(std::span<const int> holders, std::span<const int> lost, int stages,
                      int replicas, int slots) {
  const auto count = std::ssize(holders);
  const auto groups = std::min<int64_t>(stages, count);
  if (groups == 0) return true;
  // The narrowest stage has the least room for replicas.
  const auto rows = count / groups;
  const int64_t live = std::max<int64_t>(1, std::min(rows, replicas * rows * groups / slots));
  int64_t group = -1, lost_of_group = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t of = i * groups / count;
    if (of != group) lost_of_group = 0;
    group = of;
    lost_of_group += contains(lost, holders[static_cast<size_t>(i)]);
    if (lost_of_group >= live) return false;
  }
  return true;
}

}  // namespace evermoe
