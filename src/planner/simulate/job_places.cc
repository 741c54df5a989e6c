#include "planner/simulate/job_places.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace evermoe {
namespace {

bool contains(std::span<const int> ascending, int value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

}  // namespace

JobPlaces::JobPlaces(int places, int nodes, int racks)
    : node_of_(static_cast<size_t>(places), -1), place_of_(static_cast<size_t>(nodes), -1) {
  CHECK(places >= 1 && nodes >= 0 && racks >= 0);
  for (int place = 0; place < places; ++place) vacant_.insert(place);
  if (racks > 1) stride_ = (places + racks - 1) / racks;
}

void JobPlaces::add(std::span<const int> nodes) {
  for (const int node : nodes) {
    const bool is_new = place_of_[static_cast<size_t>(node)] < 0 && spares_.insert(node).second;
    CHECK(is_new) << "node " << node << " came twice";
  }
}

int JobPlaces::spares_among(std::span<const int> nodes) const {
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(), [&](int node) { return spares_.contains(node); }));
}

std::vector<int> JobPlaces::places_of(std::span<const int> nodes) const {
  std::vector<int> places;
  for (const int node : nodes) {
    if (place_of_[static_cast<size_t>(node)] >= 0)
      places.push_back(place_of_[static_cast<size_t>(node)]);
  }
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<int> JobPlaces::remove(std::span<const int> nodes) {
  std::vector<int> places = places_of(nodes);
  for (const int node : nodes) {
    place_of_[static_cast<size_t>(node)] = -1;
    spares_.erase(node);
  }
  for (const int place : places) {
    node_of_[static_cast<size_t>(place)] = -1;
    vacant_.insert(place);
    --filled_;
  }
  return places;
}

void JobPlaces::fill() {
  while (!vacant_.empty() && !spares_.empty()) {
    const int place = *vacant_.begin(), node = *spares_.begin();
    vacant_.erase(vacant_.begin());
    spares_.erase(spares_.begin());
    node_of_[static_cast<size_t>(place)] = node;
    place_of_[static_cast<size_t>(node)] = place;
    ++filled_;
  }
}

bool JobPlaces::copies_survive(std::span<const int> lost, std::span<const int> bare,
                               int copies) const {
  for (const int place : lost) {
    bool is_held = false;
    for (int copy = 1; copy <= copies && !is_held; ++copy) {
      const int holder = static_cast<int>((place + int64_t{copy} * stride_) % places());
      is_held = holder != place && !contains(lost, holder) && !contains(bare, holder);
    }
    if (!is_held) return false;
  }
  return true;
}

std::vector<int> JobPlaces::filled_places() const {
  std::vector<int> filled;
  for (int place = 0; place < places(); ++place) {
    if (node_of_[static_cast<size_t>(place)] >= 0) filled.push_back(place);
  }
  return filled;
}

int JobPlaces::adjacent_stages(std::span<const int> places, int stages) const {
  std::set<int> hit;
  const int64_t count = this->places();
  for (const int64_t place : places) {
    // A place of a narrow stage holds several.
    const int64_t first = place * stages / count,
                  last = std::max(first, ((place + 1) * stages - 1) / count);
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
                      int replicas, int places) {
  const auto count = std::ssize(holders);
  const auto groups = std::min<int64_t>(stages, count);
  if (groups == 0) return true;
  // The narrowest stage has the least room for replicas.
  const auto rows = count / groups;
  const int64_t live = std::max<int64_t>(1, std::min(rows, replicas * rows * groups / places));
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
