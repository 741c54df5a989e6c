#include "experts/placement/load_placement.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "base/check.h"

namespace evermoe {
namespace {

struct Room {
  int lanes = 0;
  int slots = 0;  // of a lane
  int total() const { return lanes * slots; }
};

Room room_for(int experts, const LoadPlacementOptions& options) {
  const int least = (experts + options.lanes - 1) / options.lanes;
  return {options.lanes, std::clamp(options.slots, least, experts)};
}

// So that the largest load of a replica is least, then the second largest, and so on.
std::vector<int> count_replicas(std::span<const int64_t> loads, Room room, int faults) {
  const int experts = static_cast<int>(loads.size());
  const int least = std::clamp(faults + 1, 1, std::min(room.lanes, room.total() / experts));
  std::vector<int> replicas(loads.size(), least);
  const auto later = [&](int a, int b) {
    const auto ia = static_cast<size_t>(a), ib = static_cast<size_t>(b);
    const absl::uint128 ours = absl::uint128(static_cast<uint64_t>(loads[ia])) * replicas[ib];
    const absl::uint128 theirs = absl::uint128(static_cast<uint64_t>(loads[ib])) * replicas[ia];
    if (ours != theirs) return ours < theirs;
    if (replicas[ia] != replicas[ib]) return replicas[ia] > replicas[ib];
    return a > b;
  };
  std::vector<int> claims(loads.size());
  std::iota(claims.begin(), claims.end(), 0);
  std::erase_if(claims, [&](int) { return least == room.lanes; });
  std::make_heap(claims.begin(), claims.end(), later);
  for (int left = room.total() - experts * least; left > 0 && !claims.empty(); --left) {
    std::pop_heap(claims.begin(), claims.end(), later);
    if (++replicas[static_cast<size_t>(claims.back())] == room.lanes)
      claims.pop_back();
    else
      std::push_heap(claims.begin(), claims.end(), later);
  }
  return replicas;
}

// A lane that is busier than the mean by less than one part in so many is not worth an exchange.
constexpr int64_t kEvenParts = 256;
// With how many of the least loaded lanes the busiest may exchange.
constexpr int kPartnersMax = 16;

// What lanes hold, and how much of the load comes with it.
class Deal {
 public:
  Deal(std::vector<int64_t> shares, Room room)
      : shares_(std::move(shares)), experts_of_(room.lanes), loads_(room.lanes, 0) {
    for (int lane = 0; lane < room.lanes; ++lane) next_.emplace(0, 0, lane);
  }

  // Lanes with more free slots first: their numbers then differ by at most one, so that there are
  // always enough lanes with one for the replicas that are left. Of these the least loaded.
  void add(int expert, int replicas) {
    std::vector<int> lanes;
    for (int i = 0; i < replicas; ++i) {
      lanes.push_back(std::get<2>(next_.top()));
      next_.pop();
    }
    for (const int lane : lanes) {
      experts_of(lane).push_back(expert);
      loads_[static_cast<size_t>(lane)] += share(expert);
      next_.emplace(experts_of(lane).size(), loads_[static_cast<size_t>(lane)], lane);
    }
  }

  // Exchanges replicas of the busiest lane, at most so often.
  void even_out(int exchanges_max) {
    std::set<LaneLoad> by_load;
    for (size_t lane = 0; lane < loads_.size(); ++lane)
      by_load.emplace(loads_[lane], static_cast<int>(lane));
    const int64_t sum = std::accumulate(loads_.begin(), loads_.end(), int64_t{0});
    const int64_t mean = sum / std::ssize(loads_);
    for (int left = exchanges_max; left > 0; --left) {
      if (by_load.rbegin()->first - mean <= mean / kEvenParts || !exchange(by_load)) return;
    }
  }

  ExpertsOfNodes take() {
    for (std::vector<int>& on_lane : experts_of_) std::ranges::sort(on_lane);
    return std::move(experts_of_);
  }

 private:
  struct Exchange {
    int other = 0;
    int out = 0, in = 0;  // for the busiest lane
    int64_t busier = 0;   // load of the busier of the two afterwards
  };
  using LaneLoad = std::pair<int64_t, int>;
  using Next = std::tuple<size_t, int64_t, int>;  // experts, load, lane

  // One replica of the busiest lane against a lighter one of another lane, so that the busier of
  // the two gets as little as can be. False if none helps.
  bool exchange(std::set<LaneLoad>& by_load) {
    const int busiest = by_load.rbegin()->second;
    std::optional<Exchange> best;
    auto other = by_load.begin();
    for (int i = 0; i < kPartnersMax && other->second != busiest; ++i, ++other)
      look_for_exchange(busiest, other->second, best);
    if (!best) return false;
    std::ranges::replace(experts_of(busiest), best->out, best->in);
    std::ranges::replace(experts_of(best->other), best->in, best->out);
    const int64_t moved = share(best->out) - share(best->in);
    for (const auto& [lane, more] : {std::pair(busiest, -moved), std::pair(best->other, moved)}) {
      int64_t& load = loads_[static_cast<size_t>(lane)];
      by_load.erase({load, lane});
      load += more;
      by_load.emplace(load, lane);
    }
    return true;
  }

  void look_for_exchange(int busiest, int other, std::optional<Exchange>& best) {
    const int64_t before = loads_[static_cast<size_t>(busiest)];
    for (const int out : experts_of(busiest)) {
      if (holds(other, out)) continue;
      for (const int in : experts_of(other)) {
        const int64_t moved = share(out) - share(in);
        if (moved <= 0 || holds(busiest, in)) continue;
        const int64_t busier = std::max(before - moved, loads_[static_cast<size_t>(other)] + moved);
        if (busier < (best ? best->busier : before)) best = {other, out, in, busier};
      }
    }
  }

  bool holds(int lane, int expert) { return std::ranges::count(experts_of(lane), expert) > 0; }
  std::vector<int>& experts_of(int lane) { return experts_of_[static_cast<size_t>(lane)]; }
  int64_t share(int expert) const { return shares_[static_cast<size_t>(expert)]; }

  const std::vector<int64_t> shares_;  // by expert: load of one of its replicas
  ExpertsOfNodes experts_of_;
  std::vector<int64_t> loads_;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;  // to get a replica
};

}  // namespace

ExpertsOfNodes place_by_load(std::span<const int64_t> loads, const LoadPlacementOptions& options) {
  CHECK(!loads.empty() && options.lanes >= 1) << loads.size() << " experts";
  const int experts = static_cast<int>(loads.size());
  const Room room = room_for(experts, options);
  const std::vector<int> replicas = count_replicas(loads, room, options.faults);
  std::vector<int64_t> shares;
  for (size_t e = 0; e < loads.size(); ++e) {
    CHECK(loads[e] >= 0) << "expert " << e;
    shares.push_back(loads[e] / replicas[e]);
  }
  std::vector<int> order(loads.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](int e) { return shares[static_cast<size_t>(e)]; });
  Deal deal(std::move(shares), room);
  for (const int expert : order) deal.add(expert, replicas[static_cast<size_t>(expert)]);
  // Every exchange helps the busiest lane; so many are enough to come close to the best.
  deal.even_out(4 * room.lanes);
  return deal.take();
}

}  // namespace evermoe
