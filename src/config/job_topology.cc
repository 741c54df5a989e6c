#include "config/job_topology.h"

#include <algorithm>
#include <vector>

#include "config/elastic/elastic_keys.h"

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
    of_stage = static_cast<int>(std::max<int64_t>(1, share - 1));
  }
  return lanes;
}

ExpertPlacement expert_placement_of(const JobConfig& config, int lanes) {
  // Fewer lanes may train than the job began with.
  const int replicas = std::min(static_cast<int>(config.parallel.expert_replicas), lanes);
  return ExpertPlacement::uniform(static_cast<int>(config.model.experts), lanes, replicas);
}

}  // namespace evermoe
