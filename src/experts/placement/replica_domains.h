// Replicas over racks and switches: which physical node plays which node of a plan so that a lost
// domain does not take every replica of an expert.
//
// A plan (replica_placement.h) promises distinct nodes. Here its nodes are given to physical nodes
// so that the replicas of each expert are in several domains too. To ask what a lost rack does,
// give experts_of_domains() of survival.h to survival_curve().
#pragma once

#include <vector>

#include "experts/migration/node_matching.h"
#include "experts/placement/replica_placement.h"
#include "parallel/failure_domains.h"

namespace evermoe {

struct DomainGoal {
  DomainLevel level = DomainLevel::kRack;
  // Each expert's replicas shall be in so many domains: fewer lost domains then never lose it.
  // Experts on fewer distinct nodes, and worlds of fewer domains, can only reach those numbers,
  // which then count as reached.
  int domains = 2;
};

// All nodes in an order in which neighbours are in different domains as long as the domains' sizes
// allow it. Nodes of a maximum-rank-overlap group stand side by side in a plan, so playing a new
// plan in this order spreads them.
std::vector<int> interleaved_nodes(const FailureDomains& domains, DomainLevel level);

// The experts that miss the goal, ascending. `experts_of` is by physical node.
std::vector<int> experts_too_close(const ExpertsOfNodes& experts_of, const FailureDomains& domains,
                                   const DomainGoal& goal);

struct DomainMatching {
  NodeMatching matching;
  std::vector<int> too_close;  // the experts that miss the goal all the same
};

// match_nodes(), or interleaved_nodes() where nothing held is in the plan, and then exchanges of
// plan nodes between two physical nodes, each the cheapest (by experts to fetch) of those that best
// help an expert that misses the goal, as long as one helps. A search without a guarantee, which
// reached the goal in every small random case tried in which some mapping does (thousands).
// matching.is_exact stays true only if nothing had to be exchanged.
// REQUIRES: as many nodes in `held` and `domains` as in the plan.
DomainMatching match_nodes_over_domains(const ExpertsOfNodes& held, const ExpertsOfNodes& plan,
                                        const FailureDomains& domains, const DomainGoal& goal);

}  // namespace evermoe
