// The hash model's state on its way between lanes, and between checkpoints and lanes.
//
// A shard is arithmetic on the shards that it is made of: of the whole operator, and of its new
// place among so many lanes. So a move that is left out, made twice or made in another order shows
// for ever.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "comm/communicator.h"
#include "parallel/membership.h"
#include "parallel/trained_lanes.h"
#include "sim/hash/hash_model.h"

namespace evermoe {

// By place of the stage before: its shards, one for each operator.
using HashShards = std::vector<std::vector<HashModel::Shard>>;

std::vector<HashModel::Shard> shards_of(HashModel& model);
// What the role in this place of `lanes` has of `before`, when experts lived by that placement.
void take_shards(const HashShards& before, uint64_t placement_before, int place, int lanes,
                 HashModel& model);
// Of these, the experts that the role has.
void take_experts(const HashShards& before, uint64_t placement_before, HashModel& model);

// A checkpoint's file: who rested, who had trained before, and the state; of a role that rests its
// step alone.
std::vector<std::byte> hash_file(const RestingRoles& resting, const TrainedOn& trained_on,
                                 const HashModel& model);
struct HashFile {
  RestingRoles resting;
  TrainedOn trained_on;
  std::span<const std::byte> state;
};
HashFile read_hash_file(std::span<const std::byte> file);

// The roles of `stage` that train in either, in order.
std::vector<Rank> ranks_of_both(const Membership& a, const Membership& b, int stage);

}  // namespace evermoe
