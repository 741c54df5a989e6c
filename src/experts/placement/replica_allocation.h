// How many replicas each expert gets (Lazarus 4.1, corrected).
//
// N nodes with c slots each hold N * c replicas. The load of an expert is shared by its replicas,
// so the busiest replica has max_e t_e / r_e tokens. Equation (1) of the paper does not minimise
// that: its floors push the whole remainder to the most loaded experts (t = (0, 3, 5), N = 2, c =
// 3, f = 1: the paper's (1, 1, 4) leaves 3 tokens on a replica, (1, 2, 3) leaves 5/3), it does not
// fit when E * f > N * c, and in floating point it is not even monotone. Here everything is
// integer, and the plan is optimal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

struct ReplicaAllocation {
  std::vector<int> replicas;  // by expert; they sum to nodes * slots
  // Every expert has at least this many: the threshold asked for, or the greatest that fits.
  int faults = 0;
};

// Minimises the largest t_e / r_e, then the second largest, and so on, among all r with sum nodes *
// slots and every r_e >= faults. The threshold is lowered to min(faults, nodes, nodes * slots /
// experts) where it does not fit, and is at least 1: an expert without a replica no longer exists.
// More loaded experts never get fewer replicas; between equal ones the higher id gets the
// remainder. A replica count may exceed `nodes`.
//
// InvalidInput if there are more experts than slots, no expert, a negative load, or no node or
// slot. O(S log E) for S = nodes * slots.
absl::StatusOr<ReplicaAllocation> allocate_replicas(std::span<const int64_t> loads, int nodes,
                                                    int slots, int faults);

inline constexpr int64_t kReplicaSlotsMax = int64_t{1} << 30;

}  // namespace evermoe
