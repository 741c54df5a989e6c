// The exact probability that a plan survives k failed nodes, for every k at once.
//
// k of the N nodes fail, every set of k equally likely; the plan survives if every expert keeps a
// replica on a live node. Only the inclusion-minimal sets of nodes matter, and sets without common
// nodes are independent given how many nodes of each live, so the plan is cut into connected parts.
// Losing sets of live nodes are counted inside each part by inclusion-exclusion over the distinct
// unions of its minimal sets (one to a few for MRO, MRO-q and its fallback), and parts are joined
// by convolution of positive counts: no cancellation between parts, so probabilities like 1e-99
// come out right.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "experts/placement/replica_placement.h"

namespace evermoe {

struct SurvivalCurve {
  // By the number of failed nodes, 0 .. nodes. They sum to 1, each as precise as a double can be.
  std::vector<double> survived;
  std::vector<double> lost;
};

// Experts are 0 .. experts - 1; one that is on no node is always lost.
//
// InvalidInput if there are no nodes or more than kSurvivalNodesMax, or an expert is out of range;
// Unsupported if some part has more than kUnionsMax distinct unions (never with at most 20 nodes,
// nor for the plans of place_replicas(), except that spread and compact plans may be too tangled).
//
// O(N^2) after finding the parts, for plans with few unions.
absl::StatusOr<SurvivalCurve> survival_curve(const ExpertsOfNodes& experts_of, int experts);

inline constexpr int kSurvivalNodesMax = 16'000;
inline constexpr size_t kUnionsMax = size_t{1} << 20;

// The plan with the nodes of each set taken together, to ask for the survival of lost racks or
// switches: domain_of_node[n] is the set of node n, numbered from 0.
ExpertsOfNodes experts_of_domains(const ExpertsOfNodes& experts_of,
                                  const std::vector<int>& domain_of_node);

}  // namespace evermoe
