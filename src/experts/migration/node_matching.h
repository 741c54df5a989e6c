// Which physical node plays which node of a new plan, so that few experts move (Lazarus 4.3).
//
// A plan does not care which physical node is which, so the mapping is free; it decides almost
// everything about the cost of a migration (keeping the order of the nodes fetches twice to many
// times as much as the best). The cost of physical node p as plan node q is |set(q) \ set(p)|, the
// experts that p must fetch.
#pragma once

#include <cstdint>
#include <vector>

#include "experts/placement/replica_placement.h"

namespace evermoe {

struct NodeMatching {
  std::vector<int> plan_node_of;  // by physical node; a permutation
  int64_t fetched = 0;            // the sum of the costs
  bool is_exact = true;
};

inline constexpr int kMatchingExactNodesMax = 1100;

// `held[p]` is what live physical node p has (nothing, if it just joined), `plan[q]` what plan node
// q shall have; replicas of an expert on one node count once. Failed nodes are left out by the
// caller.
//
// Up to `exact_nodes_max` nodes the cost is the least of all mappings (heaviest_transport.h; nodes
// that hold the same count as one). (The paper maps greedily, which in small cases costs up
// to 4 times the least.) Beyond, pairs are matched by the most experts in common, and then swapped
// two by two as long as that helps. Nodes with nothing in common are matched in order; other ties
// are deterministic.
// REQUIRES: as many physical nodes as plan nodes, experts >= 0.
NodeMatching match_nodes(const ExpertsOfNodes& held, const ExpertsOfNodes& plan,
                         int exact_nodes_max = kMatchingExactNodesMax);

// The plan by physical node: result[p] = plan[plan_node_of[p]].
ExpertsOfNodes on_physical_nodes(ExpertsOfNodes plan, const NodeMatching& matching);

}  // namespace evermoe
