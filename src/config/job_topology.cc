#include "config/job_topology.h"

#include <vector>

namespace evermoe {

Topology topology_of(const JobConfig& config) {
  return Topology(std::vector<int>(config.parallel.lanes.begin(), config.parallel.lanes.end()),
                  config.model.layers);
}

ExpertPlacement expert_placement_of(const JobConfig& config, int lanes) {
  return ExpertPlacement::uniform(static_cast<int>(config.model.experts), lanes,
                                  static_cast<int>(config.parallel.expert_replicas));
}

}  // namespace evermoe
