#include "placement/rank_state.h"

#include <algorithm>

#include "placement/operator_stage.h"

namespace evermoe {

std::vector<int64_t> shard_sizes(std::span<const OperatorSpec> operators, const Topology& topology, const ExpertPlacement& placement,
                                 Role role) {
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
    sizes.push_back(own == owners.end() ? 0 : shard_range(spec.flat_size, static_cast<int>(owners.size()), index).size());
  }
  return sizes;
}

int64_t boundary_messages(const Topology& topology, int stage, int64_t micro_batches, int64_t evaluated) {
  const int lanes = topology.lanes(stage);
  const auto rounds = [&](int64_t count) { return (count + lanes - 1) / lanes; };
  int64_t messages = 0;
  if (!topology.holds_head(stage)) messages += rounds(micro_batches) + rounds(evaluated);
  if (!topology.holds_embedding(stage)) messages += rounds(micro_batches);
  return messages;
}

}  // namespace evermoe
