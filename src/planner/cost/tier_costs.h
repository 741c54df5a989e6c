// How often to save the whole state to each tier that a cluster has: peers' memory, durable
// storage.
//
// protection/interval/tier_intervals.h decides; here are its numbers. Nodes' failures are survived
// by peers' memory, and what takes all copies at once (memory_loss()) only by storage.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "planner/cost/protection_costs.h"
#include "protection/interval/tier_intervals.h"

namespace evermoe {

struct TierAdvice {
  std::vector<CheckpointTier> tiers;  // weakest first
  std::vector<FailureKind> kinds;
  TierPlan plan;
};

// With so many copies of every state at peers, fewer where there are fewer other nodes. Refused
// where some failure is survived by no tier: it says which.
std::variant<TierAdvice, ProtectionRefused> price_tiers(const JobProfile& job,
                                                        const ClusterSpec& cluster, int copies);

}  // namespace evermoe
