// Between live operators and the durable store: which shards a rank saves, and how a rank fills its
// shards from a checkpoint of any topology.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "train/state/operator_state.h"

namespace evermoe {

// This rank's shard of it: 1-D storage.
at::Tensor& part_of(OperatorState& state, StatePart part);

// `into` := `from`, both storage of as many parameters of this part, in whatever types: of a second
// moment perhaps one the root of the other (checkpoint/format/element_type.h).
void copy_part(StatePart part, const at::Tensor& from, at::Tensor into);

// One source per non-empty shard; they refer to the operators.
std::vector<ShardSource> shard_sources(const std::vector<OperatorState*>& operators);

// Reads master and moments of this rank's shards, in whatever types the checkpoint has them.
// Compute weights have to be gathered afterwards.
absl::Status load_shards(CheckpointReader& checkpoint,
                         const std::vector<OperatorState*>& operators);

}  // namespace evermoe
