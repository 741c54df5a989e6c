#include "experts/placement/load_sharing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "experts/placement/lane_deal.h"

namespace evermoe {
namespace {

// What makes a difference of less than one part of the mean in so many is not worth its time.
constexpr int64_t kWorthParts = 4 * kEvenParts;
// Passes in a row that hardly helped: what they shift may help in the next one.
constexpr int kInVainMax = 2;
// Passes that leave tokens where they are.
constexpr int kShiftsMax = 2;

}  // namespace

LoadSharing::LoadSharing(std::span<const int64_t> loads, const LanePlan& plan)
    : loads_(loads.begin(), loads.end()) {
  begin(plan.lanes, [&](const auto& take) {
    for (int lane = 0; lane < plan.lanes; ++lane) {
      for (const int expert : plan.slots_of(lane)) {
        if (expert == kEmptySlot) break;
        take(lane, expert);
      }
    }
  });
  share_equally();
}

LoadSharing::LoadSharing(std::span<const int64_t> loads, const ExpertsOfNodes& experts_of)
    : loads_(loads.begin(), loads.end()) {
  begin(static_cast<int>(experts_of.size()), [&](const auto& take) {
    for (size_t lane = 0; lane < experts_of.size(); ++lane) {
      for (const int expert : experts_of[lane]) take(static_cast<int>(lane), expert);
    }
  });
  share_equally();
}

LoadSharing::LoadSharing(std::span<const int64_t> tokens, const ExpertPlacement& placement)
    : loads_(static_cast<size_t>(placement.experts())) {
  const size_t experts = loads_.size();
  CHECK(tokens.size() == experts * static_cast<size_t>(placement.lane_count())) << tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) loads_[i % experts] += tokens[i];
  begin(placement.lane_count(), [&](const auto& take) {
    for (int lane = 0; lane < placement.lane_count(); ++lane) {
      for (const int expert : placement.experts_on(lane)) take(lane, expert);
    }
  });
  std::vector<int64_t> of_others = loads_;
  for (size_t expert = 0; expert < experts; ++expert) {
    for (Replica& replica : replicas(expert)) {
      add(replica, tokens[static_cast<size_t>(replica.lane) * experts + expert]);
      of_others[expert] -= replica.part;
    }
  }
  for (size_t expert = 0; expert < experts; ++expert) pour(expert, of_others[expert]);
}

template <typename ForEach>
void LoadSharing::begin(int lanes, const ForEach& for_each_replica) {
  begin_.assign(loads_.size() + 1, 0);
  for_each_replica([&](int, int expert) {
    CHECK(expert >= 0 && static_cast<size_t>(expert) < loads_.size()) << expert;
    ++begin_[static_cast<size_t>(expert) + 1];
  });
  for (size_t expert = 0; expert < loads_.size(); ++expert)
    CHECK(begin_[expert + 1] > 0) << "expert " << expert << " is on no lane";
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  replicas_.resize(begin_.back());
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  for_each_replica([&](int lane, int expert) {
    replicas_[next[static_cast<size_t>(expert)]++] = {.lane = lane};
  });
  of_lane_.assign(static_cast<size_t>(lanes), 0);
  mean_ = std::accumulate(loads_.begin(), loads_.end(), int64_t{0}) / std::max(1, lanes);
}

void LoadSharing::share_equally() {
  for (size_t expert = 0; expert < loads_.size(); ++expert) {
    const auto count = static_cast<int64_t>(replicas_in(expert));
    int64_t over = loads_[expert] % count;
    for (Replica& replica : replicas(expert))
      add(replica, loads_[expert] / count + (over-- > 0 ? 1 : 0));
  }
}

bool LoadSharing::is_even(int64_t busiest) const { return busiest - mean_ <= mean_ / kEvenParts; }

void LoadSharing::even_out() {
  int64_t busiest = *std::ranges::max_element(of_lane_);
  int in_vain = 0;
  for (int pass = 0; pass < kPassesMax && in_vain < kInVainMax && !is_even(busiest); ++pass) {
    for (size_t expert = 0; expert < loads_.size(); ++expert) {
      if (replicas_in(expert) > 1) pass < kShiftsMax ? shift(expert) : level(expert);
    }
    const int64_t before = std::exchange(busiest, *std::ranges::max_element(of_lane_));
    const bool helped = before - busiest > mean_ / kWorthParts || pass < kShiftsMax;
    in_vain = helped ? 0 : in_vain + 1;
  }
}

// From its lanes above the mean to those below it.
void LoadSharing::shift(size_t expert) {
  const std::span<Replica> replicas = this->replicas(expert);
  auto taker = replicas.begin();
  for (Replica& giver : replicas) {
    int64_t over = std::min(giver.part, load_of(giver) - mean_);
    while (over > 0) {
      while (taker != replicas.end() && load_of(*taker) >= mean_) ++taker;
      if (taker == replicas.end()) return;
      const int64_t moved = std::min(over, mean_ - load_of(*taker));
      add(giver, -moved);
      add(*taker, moved);
      over -= moved;
    }
  }
}

void LoadSharing::level(size_t expert) {
  int64_t highest = 0, lowest = INT64_MAX;
  for (const Replica& replica : replicas(expert)) {
    if (replica.part > 0) highest = std::max(highest, load_of(replica));
    lowest = std::min(lowest, load_of(replica));
  }
  if (highest - lowest <= mean_ / kWorthParts) return;
  for (Replica& replica : replicas(expert)) add(replica, -replica.part);
  pour(expert, loads_[expert]);
}

// As water finds its level: its lanes, the least loaded first, are filled up to one height.
void LoadSharing::pour(size_t expert, int64_t load) {
  if (load == 0) return;
  order_.clear();
  for (Replica& replica : replicas(expert)) order_.push_back(&replica);
  std::ranges::sort(order_, {}, [&](const Replica* replica) {
    return std::pair(load_of(*replica), replica->lane);
  });
  // So many lanes are filled, which have so much already.
  int64_t filled = 0, has = 0;
  for (; filled < std::ssize(order_); ++filled) {
    const int64_t height = load_of(*order_[static_cast<size_t>(filled)]);
    if (filled > 0 && height * filled - has >= load) break;
    has += height;
  }
  const int64_t height = (load + has) / filled;
  int64_t over = (load + has) % filled;
  for (Replica* const replica : std::span(order_).first(static_cast<size_t>(filled)))
    add(*replica, height + (over-- > 0 ? 1 : 0) - load_of(*replica));
}

double slowdown_of(std::span<const int64_t> loads, const LanePlan& plan) {
  LoadSharing sharing(loads, plan);
  sharing.even_out();
  return sharing.slowdown();
}

double slowdown_of(std::span<const int64_t> loads, const ExpertsOfNodes& experts_of) {
  LoadSharing sharing(loads, experts_of);
  sharing.even_out();
  return sharing.slowdown();
}

double LoadSharing::slowdown() const {
  const int64_t sum = std::accumulate(of_lane_.begin(), of_lane_.end(), int64_t{0});
  if (sum == 0) return 1;
  const auto busiest = static_cast<double>(*std::ranges::max_element(of_lane_));
  return std::max(1.0, busiest * static_cast<double>(of_lane_.size()) / static_cast<double>(sum));
}

}  // namespace evermoe
