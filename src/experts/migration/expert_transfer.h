// Who sends which expert's state to whom in a migration, and when (Lazarus 4.3).
//
// Every node fetches the experts that it shall hold and does not. Sources are chosen so that the
// busiest sender sends as little as possible, and the transfers are put into rounds in which no
// node sends or receives more than one expert. There are exactly as many rounds as the busiest
// sender or receiver has transfers: no schedule with these sources is shorter, and no link waits
// for another.
//
// "Expert" may be any numbered piece of state of equal size: to move all layers in one schedule,
// number expert e of layer l as l * experts + e.
#pragma once

#include <vector>

#include "experts/placement/replica_placement.h"

namespace evermoe {

struct ExpertTransfer {
  int round = 0;
  int source = 0;  // nodes
  int destination = 0;
  int expert = 0;
  friend auto operator<=>(const ExpertTransfer&, const ExpertTransfer&) = default;
};

struct ExpertFetch {
  int expert = 0;
  int node = 0;
  friend auto operator<=>(const ExpertFetch&, const ExpertFetch&) = default;
};

struct TransferPlan {
  std::vector<ExpertTransfer> transfers;  // ascending
  int rounds = 0;
  int sent_max = 0;      // by the busiest source
  int received_max = 0;  // by the busiest destination
  // What no live node holds, ascending: must come from a snapshot or a checkpoint.
  std::vector<ExpertFetch> unavailable;
};

// `held[n]` is what node n has, `wanted[n]` what it shall have. The busiest source sends as little
// as any choice of sources allows, or no more than the busiest destination receives. Deterministic.
// REQUIRES: as many entries in both, experts >= 0. O(T * (N + rounds)) for T transfers, and usually
// far less.
TransferPlan plan_transfers(const ExpertsOfNodes& held, const ExpertsOfNodes& wanted);

}  // namespace evermoe
