// Which nodes hold which replicas (Lazarus 4.1 and A.2, corrected).
//
// A plan survives a failure if every expert keeps a replica on a live node, so what counts is the
// set of nodes of each expert. *Maximum rank overlap* (MRO) sorts the experts by replica count,
// cuts them into groups of `slots` and gives each group disjoint nodes, as many as its least
// replicated member (its *representative*) has replicas: a group is lost only with all its nodes.
//
// The paper's Theorem 1 says that this is optimal for every number of failures. That is false when
// the last group finds fewer nodes left than its representative has replicas (only possible if
// `slots` does not divide the number of experts): 3 experts of 2 replicas on 3 nodes of 2 slots
// give {1 2}{1 2}{3 3}, which one failure in three destroys, where {1 2}{1 3}{2 3} survives any.
// *MRO-q* repairs the last two groups and is never worse than MRO.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

// By node: the experts it holds, ascending; an expert comes as often as it has replicas there.
using ExpertsOfNodes = std::vector<std::vector<int>>;

enum class PlacementMethod {
  kMro,      // the paper's, optimal where the last group is not cut short
  kMroQ,     // MRO with the last two groups repaired
  kSpread,   // for comparison: each expert's replicas round robin over the nodes
  kCompact,  // for comparison: each expert's replicas on as few nodes as possible
};

// "mro", "mro_q", "spread", "compact".
std::string_view to_string(PlacementMethod method);
absl::StatusOr<PlacementMethod> parse_placement_method(std::string_view name);

struct PlacementOptions {
  PlacementMethod method = PlacementMethod::kMroQ;

  // MRO-q puts every expert on at least so many distinct nodes, so that fewer failures never lose
  // one; 0 or more than the least replicated expert can have: as many as that one can. Where MRO-q
  // itself would break this, its last two groups are placed by wrapping around their nodes, which
  // keeps the promise at the price of lower survival for many failures.
  int faults = 0;

  // Experts in the order of the plan now in force (ReplicaPlacement::order); empty for none. Among
  // experts with equally many replicas it is kept, so that groups change no more than the counts
  // do.
  std::span<const int> previous_order;
};

struct ReplicaPlacement {
  ExpertsOfNodes experts_of;  // by node: exactly `slots` entries
  std::vector<int> order;     // the experts ascending by replicas, as they were grouped
  int distinct_least = 0;     // on so many distinct nodes is every expert at least
  bool wraps_around = false;  // the fallback was needed
};

// Places exactly replicas[e] replicas of each expert. Survival depends only on the sets of nodes;
// which physical node plays which node of the plan is for node_matching.h and replica_domains.h.
//
// InvalidInput if some count is below 1, they do not sum to nodes * slots, or previous_order is no
// permutation. O(S log E) for S = nodes * slots.
absl::StatusOr<ReplicaPlacement> place_replicas(std::span<const int> replicas, int nodes, int slots,
                                                const PlacementOptions& options = {});

// By expert 0 .. experts - 1: on how many distinct nodes it is. REQUIRES: ids in that range.
std::vector<int> distinct_nodes(const ExpertsOfNodes& experts_of, int experts);

}  // namespace evermoe
