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

#include "experts/placement/replica_placement.h"

namespace evermoe {

struct LoadPlacementOptions {
  int lanes = 1;
  int slots =
      1;  // experts that a lane holds at most; where too few for all experts, as many as it takes
  int faults =
      0;  // so many lost lanes leave a replica of every expert, if there are slots for that
};

// By lane: the experts it holds, ascending, each once; every expert is on one at least. Of equal
// experts the one with the lower number comes first. REQUIRES: an expert, a lane, no negative load.
// O(S log S + lanes * slots^3) for S = lanes * slots.
ExpertsOfNodes place_by_load(std::span<const int64_t> loads, const LoadPlacementOptions& options);

}  // namespace evermoe
