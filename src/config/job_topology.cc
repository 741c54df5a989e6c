#include "config/job_topology.h"

#include <algorithm>
#include <vector>

#include "config/elastic/elastic_keys.h"
#include "parallel/membership.h"

namespace evermoe {

Topology topology_of(const JobConfig& config) {
  return Topology(std::vector<int>(config.parallel.lanes.begin(), config.parallel.lanes.end()),
                  config.model.layers);
}

std::vector<int> narrowest_lanes(const JobConfig& config) {
  std::vector<int> lanes(config.parallel.lanes.begin(), config.parallel.lanes.end());
  for (const LaneHistoryEntry& entry : lane_history_of(config)) {
    for (size_t stage = 0; stage < lanes.size(); ++stage)
      lanes[stage] = std::min(lanes[stage], entry.lanes[stage]);
  }
  if (!config.elastic.enabled) return lanes;
  // The machines that are left have their share of the roles, and stages differ by one lane or so.
  for (int& of_stage : lanes) {
    const int64_t share = of_stage * config.elastic.min_nodes / config.run.nodes;
    of_stage = width_of(elastic_widths(config), static_cast<int>(std::max<int64_t>(1, share - 1)));
  }
  return lanes;
}

std::vector<int> elastic_widths(const JobConfig& config) {
  return {config.elastic.widths.begin(), config.elastic.widths.end()};
}

ExpertPlacement expert_placement_of(const JobConfig& config, int lanes) {
  if (moves_experts(config)) {
    ExpertBalance balance = initial_balance(1, config.model.experts);
    settle(balance, {&lanes, 1}, balance_options(config));
    return placement_of(balance[0]);
  }
  // Fewer lanes may train than the job began with.
  const int replicas = std::min(static_cast<int>(config.parallel.expert_replicas), lanes);
  return ExpertPlacement::uniform(static_cast<int>(config.model.experts), lanes, replicas);
}

ExpertPlacement heaviest_placement(const JobConfig& config, int lanes, int lane) {
  if (!moves_experts(config)) return expert_placement_of(config, lanes);
  const int held =
      slots_of_lane(balance_options(config), static_cast<int>(config.model.experts), lanes);
  std::vector<std::vector<int>> lanes_of(static_cast<size_t>(config.model.experts),
                                         {(lane + 1) % lanes});
  std::fill_n(lanes_of.begin(), held, std::vector<int>{lane});
  return {std::move(lanes_of), lanes};
}

bool moves_experts(const JobConfig& config) {
  return config.experts.replicas == ExpertReplicas::kByLoad;
}

BalanceOptions balance_options(const JobConfig& config) {
  const int64_t every = config.experts.rebalance_every_steps;
  return {.slots = static_cast<int>(config.experts.slots),
          .replicas = static_cast<int>(config.parallel.expert_replicas),
          .faults = static_cast<int>(config.experts.faults),
          .every_steps = every,
          // What gates choose changes slowly, and a few steps have enough tokens to count.
          .memory_steps = std::max(every / 4, std::min<int64_t>(every, 16)),
          .gain = config.experts.rebalance_gain};
}

std::vector<int> lanes_of_moe_layers(const ModelShape& model, const Topology& lanes) {
  std::vector<int> result;
  for (int stage = 0; stage < lanes.stages(); ++stage) {
    for (int64_t layer = lanes.first_layer(stage); layer < lanes.first_layer(stage + 1); ++layer) {
      if (model.is_moe_layer(layer)) result.push_back(lanes.lanes(stage));
    }
  }
  return result;
}

}  // namespace evermoe
