// How much of the model one rank holds, and how much it sends, before any process is there. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/placement/expert_placement.h"
#include "model/operator.h"
#include "parallel/topology.h"

namespace evermoe {

// Elements of this role's shard of every operator of its stage, in the order of `operators`, which
// are those of the whole model. 0 for experts that live on other lanes.
std::vector<int64_t> shard_sizes(std::span<const OperatorSpec> operators, const Topology& topology,
                                 const ExpertPlacement& placement, Role role);

// Messages that a lane of `stage` sends across the stage's boundaries in a step of `micro_batches`,
// or in a batch of an evaluation; of the lane that has most.
int64_t boundary_messages(const Topology& topology, int stage, int64_t micro_batches);

// How many micro-batches of an evaluation run between two commits: at most those of a step, so that
// their messages take no more memory; full rounds in every stage where so many are enough for one.
int64_t evaluation_batch(const Topology& topology, int64_t micro_batches);

}  // namespace evermoe
