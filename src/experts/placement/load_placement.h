// Which lanes hold which experts of a layer, dealt by load.
//
// Experts get replicas as their load deserves (replica_allocation.h says in what sense), but none
// twice on a lane: another one there would share nothing that the first does not. Then the busiest
// lane has as little as a greedy deal and exchanges of two replicas between it and one of the least
// loaded bring about, until it has hardly more than the mean. The placement of the paper
// (replica_placement.h) groups experts by their number of replicas instead, so it leaves lanes with
// cold experts only; what it survives by chance more than `faults` promises, the copies of a job's
// state survive anyway.
//
// Pure: integers only, so the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/placement/replica_placement.h"

namespace evermoe {

struct LoadPlacementOptions {
  int lanes = 1;
  int slots =
      1;  // experts that a lane holds at most; where too few for all experts, as many as it takes
  int faults =
      0;  // so many lost lanes leave a replica of every expert, if there are slots for that
};

// What lanes hold, in one array.
struct LanePlan {
  int lanes = 0;
  int slots = 0;              // of a lane
  std::vector<int> experts;   // [lane][slot]: ascending, then kEmptySlot
  std::vector<int> replicas;  // by expert

  std::span<const int> slots_of(int lane) const {
    return {&experts[static_cast<size_t>(lane) * static_cast<size_t>(slots)],
            static_cast<size_t>(slots)};
  }
  ExpertsOfNodes experts_of() const;
};
inline constexpr int kEmptySlot = -1;

// No lane holds an expert twice; every expert is on one at least. Of equal experts the one with the
// lower number comes first. REQUIRES: an expert, a lane, no negative load.
// O(E log E + lanes * slots) for E experts, without exchanges; each of these, at most 4 * lanes, is
// O(lanes + slots^2).
LanePlan plan_by_load(std::span<const int64_t> loads, const LoadPlacementOptions& options);

// The same by lane: the experts it holds, ascending.
ExpertsOfNodes place_by_load(std::span<const int64_t> loads, const LoadPlacementOptions& options);

// False: whatever is placed, some replica has more load than `most`. A look at the loads alone.
// REQUIRES: most >= 1.
bool may_keep_shares_within(std::span<const int64_t> loads, const LoadPlacementOptions& options,
                            int64_t most);

}  // namespace evermoe
