// The exchange of replica_dispatch.h as positions in buffers: the plans of dispatch_plan.h with any
// number of serving lanes for each expert and source. Lanes are ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/dispatch/dispatch_plan.h"
#include "experts/dispatch/replica_dispatch.h"

namespace evermoe {

// `experts` holds the chosen expert of every choice of this lane's micro-batch.
// REQUIRES: as many choices of each expert as `dispatch` was made for; the placement has the lanes
// with replicas.
SendPlan plan_replica_send(std::span<const int64_t> experts, const RankDispatch& dispatch,
                           const ExpertPlacement& placement);

// The same where every lane knows how often all have chosen each expert: tokens[lane * experts +
// expert]. Lanes that hold an expert share its tokens so that the busiest lane of this exchange has
// least (placement/load_sharing.h).
SendPlan plan_replica_send(std::span<const int64_t> experts, int own_lane,
                           std::span<const int64_t> tokens, const ExpertPlacement& placement);

// The first argument of plan_receive(): rows by source lane and index among the experts of
// own_lane.
std::vector<std::vector<int64_t>> replica_receive_counts(const RankDispatch& dispatch, int own_lane,
                                                         const ExpertPlacement& placement);

}  // namespace evermoe
