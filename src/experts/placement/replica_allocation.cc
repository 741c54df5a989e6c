#include "experts/placement/replica_allocation.h"

#include <algorithm>
#include <numeric>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// An expert waiting for another replica.
struct Claim {
  int64_t load = 0;
  int replicas = 0;
  int position = 0;  // among the experts ascending by (load, id)
};

// Whether `a` gets the next replica later than `b`: by load per replica, fewer replicas, then
// position.
bool later(const Claim& a, const Claim& b) {
  const absl::uint128 ours =
      absl::uint128(static_cast<uint64_t>(a.load)) * static_cast<uint64_t>(b.replicas);
  const absl::uint128 theirs =
      absl::uint128(static_cast<uint64_t>(b.load)) * static_cast<uint64_t>(a.replicas);
  if (ours != theirs) return ours < theirs;
  if (a.replicas != b.replicas) return a.replicas > b.replicas;
  return a.position < b.position;
}

absl::Status check_input(std::span<const int64_t> loads, int nodes, int slots, int faults) {
  if (nodes < 1 || slots < 1) {
    return InvalidInput(
        absl::StrCat("no room for experts: ", nodes, " nodes of ", slots, " slots"));
  }
  const int64_t room = static_cast<int64_t>(nodes) * slots;
  if (room > kReplicaSlotsMax) {
    return InvalidInput(absl::StrCat(room, " replica slots are more than ", kReplicaSlotsMax));
  }
  if (loads.empty()) return InvalidInput("there are no experts to place");
  if (static_cast<int64_t>(loads.size()) > room) {
    return InvalidInput(absl::StrCat(loads.size(), " experts do not fit in ", nodes, " nodes of ",
                                     slots, " slots"));
  }
  if (faults < 0)
    return InvalidInput(absl::StrCat("the fault threshold is ", faults, ", must be at least 0"));
  for (size_t expert = 0; expert < loads.size(); ++expert) {
    if (loads[expert] < 0)
      return InvalidInput(absl::StrCat("expert ", expert, " has load ", loads[expert]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplicaAllocation> allocate_replicas(std::span<const int64_t> loads, int nodes,
                                                    int slots, int faults) {
  RETURN_IF_ERROR(check_input(loads, nodes, slots, faults));
  const int experts = static_cast<int>(loads.size());
  const int room = nodes * slots;
  const int least = std::max(1, std::min({faults, nodes, room / experts}));

  std::vector<int> order(experts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return loads[a] < loads[b]; });
  std::vector<Claim> claims;
  for (int i = 0; i < experts; ++i) claims.push_back({loads[order[i]], least, i});

  std::make_heap(claims.begin(), claims.end(), later);
  for (int left = room - experts * least; left > 0; --left) {
    std::pop_heap(claims.begin(), claims.end(), later);
    ++claims.back().replicas;
    std::push_heap(claims.begin(), claims.end(), later);
  }
  ReplicaAllocation result{.replicas = std::vector<int>(experts), .faults = least};
  for (const Claim& claim : claims) result.replicas[order[claim.position]] = claim.replicas;
  return result;
}

}  // namespace evermoe
