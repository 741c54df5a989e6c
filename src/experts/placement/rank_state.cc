#include "experts/placement/rank_state.h"

#include <algorithm>
#include <numeric>

#include "parallel/operator_stage.h"

namespace evermoe {

std::vector<int64_t> shard_sizes(std::span<const OperatorSpec> operators, const Topology& topology,
                                 const ExpertPlacement& placement, Role role) {
  std::vector<int64_t> sizes;
  for (const OperatorSpec& spec : operators) {
    if (stage_of(spec, topology) != role.stage) continue;
    if (spec.kind != OperatorKind::kExpert) {
      sizes.push_back(shard_range(spec.flat_size, topology.lanes(role.stage), role.lane).size());
      continue;
    }
    const std::vector<int>& owners = placement.lanes_of(spec.expert);
    const auto own = std::find(owners.begin(), owners.end(), role.lane);
    const auto index = static_cast<int>(own - owners.begin());
    sizes.push_back(
        own == owners.end()
            ? 0
            : shard_range(spec.flat_size, static_cast<int>(owners.size()), index).size());
  }
  return sizes;
}

int64_t boundary_messages(const Topology& topology, int stage, int64_t micro_batches) {
  const int64_t rounds = (micro_batches + topology.lanes(stage) - 1) / topology.lanes(stage);
  const int64_t directions =
      (topology.holds_head(stage) ? 0 : 1) + (topology.holds_embedding(stage) ? 0 : 1);
  return directions * rounds;
}

int64_t evaluation_batch(const Topology& topology, int64_t micro_batches) {
  int64_t whole_rounds = 1;
  for (int stage = 0; stage < topology.stages() && whole_rounds <= micro_batches; ++stage) {
    whole_rounds = std::lcm(whole_rounds, int64_t{topology.lanes(stage)});
  }
  return whole_rounds > micro_batches ? micro_batches : micro_batches / whole_rounds * whole_rounds;
}

}  // namespace evermoe
