#include "experts/placement/load_placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/numeric/int128.h"
#include "base/check.h"
#include "experts/placement/lane_deal.h"

namespace evermoe {
namespace {

// How many replicas lanes have room for, and how many an expert may have.
struct Room {
  int slots = 0;  // of a lane
  int total = 0;
  int least = 0, most = 0;
};

Room room_for(int experts, const LoadPlacementOptions& options) {
  const int fewest = (experts + options.lanes - 1) / options.lanes;
  Room room{.slots = std::clamp(options.slots, fewest, experts), .most = options.lanes};
  room.total = options.lanes * room.slots;
  room.least = std::clamp(options.faults + 1, 1, std::min(options.lanes, room.total / experts));
  return room;
}

// So many replicas are enough for none to have more than `share`, if so many are allowed.
int replicas_for(int64_t load, int64_t share, Room room) {
  const int64_t wanted = load / share + (load % share > 0 ? 1 : 0);
  return static_cast<int>(std::clamp<int64_t>(wanted, room.least, room.most));
}

int64_t slots_for(std::span<const int64_t> loads, int64_t share, Room room) {
  int64_t sum = 0;
  for (const int64_t load : loads) sum += replicas_for(load, share, room);
  return sum;
}

// A share for which there is room, hardly more than the least such: only a few replicas are then
// left to be given away one by one.
int64_t share_with_room(std::span<const int64_t> loads, Room room) {
  const int64_t spare = room.total - std::ssize(loads) * room.least;
  int64_t fits = std::accumulate(loads.begin(), loads.end(), int64_t{0}) / spare + 1;
  int64_t too_little = fits / 8;
  for (int i = 0; i < 10 && fits - too_little > 1; ++i) {
    const int64_t share = too_little + (fits - too_little) / 2;
    (slots_for(loads, share, room) <= room.total ? fits : too_little) = share;
  }
  return fits;
}

// So that the largest load of a replica is least, then the second largest, and so on: the next
// replica is always one of the expert whose replicas have most. Until no replica has more than some
// share, nobody else's turn comes; so it may begin there.
std::vector<int> count_replicas(std::span<const int64_t> loads, Room room) {
  std::vector<int> replicas(loads.size(), room.least);
  const int spare = room.total - static_cast<int>(loads.size()) * room.least;
  if (spare == 0 || room.least == room.most) return replicas;
  const int64_t share = share_with_room(loads, room);
  std::ranges::transform(loads, replicas.begin(),
                         [&](int64_t load) { return replicas_for(load, share, room); });
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
  std::erase_if(claims, [&](int e) { return replicas[static_cast<size_t>(e)] == room.most; });
  std::make_heap(claims.begin(), claims.end(), later);
  int left = room.total - std::accumulate(replicas.begin(), replicas.end(), 0);
  for (; left > 0 && !claims.empty(); --left) {
    std::pop_heap(claims.begin(), claims.end(), later);
    if (++replicas[static_cast<size_t>(claims.back())] == room.most)
      claims.pop_back();
    else
      std::push_heap(claims.begin(), claims.end(), later);
  }
  return replicas;
}

LanePlan to_plan(const LaneDeal& deal, int lanes, int slots, std::vector<int> replicas) {
  LanePlan plan{.lanes = lanes, .slots = slots, .replicas = std::move(replicas)};
  plan.experts.resize(static_cast<size_t>(lanes) * static_cast<size_t>(slots), kEmptySlot);
  auto to = plan.experts.begin();
  for (int lane = 0; lane < lanes; ++lane, to += slots)
    std::sort(to, std::ranges::copy(deal.on_lane(lane), to).out);
  return plan;
}

}  // namespace

ExpertsOfNodes LanePlan::experts_of() const {
  ExpertsOfNodes by_lane(static_cast<size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    const std::span<const int> held = slots_of(lane);
    by_lane[static_cast<size_t>(lane)].assign(held.begin(), std::ranges::find(held, kEmptySlot));
  }
  return by_lane;
}

LanePlan plan_by_load(std::span<const int64_t> loads, const LoadPlacementOptions& options) {
  CHECK(!loads.empty() && options.lanes >= 1) << loads.size() << " experts";
  for (size_t e = 0; e < loads.size(); ++e) CHECK(loads[e] >= 0) << "expert " << e;
  const Room room = room_for(static_cast<int>(loads.size()), options);
  std::vector<int> replicas = count_replicas(loads, room);
  std::vector<int64_t> shares;
  for (size_t e = 0; e < loads.size(); ++e) shares.push_back(loads[e] / replicas[e]);
  std::vector<int> order(loads.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](int e) { return shares[static_cast<size_t>(e)]; });
  LaneDeal deal(std::move(shares), options.lanes, room.slots);
  for (const int expert : order) deal.add(expert, replicas[static_cast<size_t>(expert)]);
  // Every exchange helps the busiest lane; so many are enough to come close to the best.
  deal.even_out(4 * options.lanes);
  return to_plan(deal, options.lanes, room.slots, std::move(replicas));
}

ExpertsOfNodes place_by_load(std::span<const int64_t> loads, const LoadPlacementOptions& options) {
  return plan_by_load(loads, options).experts_of();
}

bool may_keep_shares_within(std::span<const int64_t> loads, const LoadPlacementOptions& options,
                            int64_t most) {
  const Room room = room_for(static_cast<int>(loads.size()), options);
  return slots_for(loads, most, room) <= room.total;
}

}  // namespace evermoe
