#include "experts/placement/lane_deal.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

// With how many of the least loaded lanes the busiest may exchange.
constexpr size_t kPartnersMax = 16;

// Neighbours of equal load in the order of a round, their numbers ascending.
struct Run {
  int64_t load = 0;
  size_t begin = 0, end = 0;
};

std::vector<Run> runs_of(const std::vector<int>& lanes, const std::vector<int64_t>& loads) {
  std::vector<Run> runs;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const int64_t load = loads[static_cast<size_t>(lanes[i])];
    if (i == 0 || load != runs.back().load || lanes[i] < lanes[i - 1]) runs.push_back({load, i, i});
    runs.back().end = i + 1;
  }
  return runs;
}

// Lanes by load, then by number.
std::vector<int> ascending(const std::vector<int>& lanes, const std::vector<int64_t>& loads) {
  std::vector<Run> runs = runs_of(lanes, loads);
  std::ranges::sort(runs, {}, [](const Run& run) { return std::pair(run.load, run.begin); });
  std::vector<int> sorted;
  sorted.reserve(lanes.size());
  for (size_t i = 0; i < runs.size();) {
    const auto equal_from = std::ssize(sorted);
    const size_t first = i;
    for (; i < runs.size() && runs[i].load == runs[first].load; ++i) {
      sorted.insert(sorted.end(), lanes.begin() + static_cast<ptrdiff_t>(runs[i].begin),
                    lanes.begin() + static_cast<ptrdiff_t>(runs[i].end));
    }
    if (i - first > 1) std::sort(sorted.begin() + equal_from, sorted.end());
  }
  return sorted;
}

}  // namespace

LaneDeal::LaneDeal(std::vector<int64_t> shares, int lanes, int slots)
    : shares_(std::move(shares)),
      slots_(static_cast<size_t>(slots)),
      held_(static_cast<size_t>(lanes) * slots_),
      held_count_(static_cast<size_t>(lanes)),
      loads_(static_cast<size_t>(lanes)),
      round_(static_cast<size_t>(lanes)) {
  std::iota(round_.begin(), round_.end(), 0);
}

void LaneDeal::add(int expert, int replicas) {
  for (auto left = static_cast<size_t>(replicas); left > 0;) {
    if (served_ == round_.size()) {
      begin_round();
      skip_holders(expert, left);
    }
    const size_t now = std::min(left, round_.size() - served_);
    for (size_t i = served_; i < served_ + now; ++i) {
      const auto lane = static_cast<size_t>(round_[i]);
      held_[lane * slots_ + static_cast<size_t>(held_count_[lane]++)] = expert;
      loads_[lane] += share(expert);
    }
    served_ += now;
    left -= now;
  }
}

void LaneDeal::begin_round() {
  round_ = ascending(round_, loads_);
  served_ = 0;
}

// An expert whose replicas began in the last round goes to others first in this one.
void LaneDeal::skip_holders(int expert, size_t wanted) {
  std::vector<int> others, passed;
  size_t i = 0;
  for (; i < round_.size() && others.size() < wanted; ++i) {
    std::vector<int>& to = holds(round_[i], expert) ? passed : others;
    to.push_back(round_[i]);
  }
  CHECK(others.size() == wanted) << "more replicas of an expert than lanes";
  std::ranges::copy(passed, std::ranges::copy(others, round_.begin()).out);
}

void LaneDeal::even_out(int exchanges_max) {
  const int64_t mean = std::accumulate(loads_.begin(), loads_.end(), int64_t{0}) /
                       static_cast<int64_t>(loads_.size());
  const auto is_even = [&](int64_t busiest) { return busiest - mean <= mean / kEvenParts; };
  if (is_even(*std::ranges::max_element(loads_))) return;
  by_load_.clear();
  for (const int lane : ascending(round_, loads_))
    by_load_.emplace_back(loads_[static_cast<size_t>(lane)], lane);
  for (int left = exchanges_max; left > 0; --left) {
    if (is_even(by_load_.back().first) || !exchange()) return;
  }
}

bool LaneDeal::exchange() {
  const LaneLoad busiest = by_load_.back();
  Exchange best{.busier = busiest.first};
  for (size_t i = 0; i < std::min(kPartnersMax, by_load_.size() - 1); ++i) {
    // Half of what both have is the least that the busier can get, and partners are ascending.
    if ((busiest.first + by_load_[i].first) / 2 >= best.busier) break;
    look_for_exchange(busiest, by_load_[i], best);
  }
  if (best.out == nullptr) return false;
  const int64_t moved = share(*best.out) - share(*best.in);
  std::swap(*best.out, *best.in);
  reorder(busiest, {busiest.first - moved, busiest.second});
  reorder(best.other, {best.other.first + moved, best.other.second});
  return true;
}

// The first of the best, in the order of partners, of what goes and of what comes.
void LaneDeal::look_for_exchange(LaneLoad busiest, LaneLoad other, Exchange& best) {
  for (int& out : on(busiest.second)) {
    for (int& in : on(other.second)) {
      const int64_t moved = share(out) - share(in);
      const int64_t busier = std::max(busiest.first - moved, other.first + moved);
      if (moved <= 0 || busier >= best.busier) continue;
      if (holds(other.second, out) || holds(busiest.second, in)) continue;
      best = {other, &out, &in, busier};
    }
  }
}

void LaneDeal::reorder(LaneLoad before, LaneLoad after) {
  loads_[static_cast<size_t>(after.second)] = after.first;
  const auto from = std::ranges::lower_bound(by_load_, before);
  const auto to = std::ranges::lower_bound(by_load_, after);
  if (after < before) {
    std::move_backward(to, from, from + 1);
    *to = after;
  } else {
    std::move(from + 1, to, from);
    *(to - 1) = after;
  }
}

bool LaneDeal::holds(int lane, int expert) const {
  return std::ranges::find(on_lane(lane), expert) != on_lane(lane).end();
}

}  // namespace evermoe
