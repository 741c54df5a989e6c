// Where a job's ranks begin and who keeps whose copies there: what the controller does and what
// predictions play.
#pragma once

#include <optional>
#include <span>

#include "parallel/failure_domains.h"
#include "parallel/topology.h"

namespace evermoe {

// The node that a rank begins on: blocks of neighbours, as even as they can be. With more nodes
// than ranks some have none. REQUIRES: 0 <= rank < ranks, nodes >= 1.
int first_node_of(int rank, int ranks, int nodes);

// Nodes are dealt to racks in order: neighbours share one. 0 racks: nothing is known of them.
FailureDomains domains_in_racks(int nodes, int racks);

// copy_holders() at `level` or, where that has too few domains with ranks, of nodes or, where these
// are too few, too, or for nullopt, at any other processes. REQUIRES: 0 <= copies < ranks, and each
// rank on a node of `domains`.
CopyHolders job_copy_holders(const Topology& topology, std::span<const int> node_of_rank,
                             const FailureDomains& domains, int copies,
                             std::optional<DomainLevel> level);

}  // namespace evermoe
