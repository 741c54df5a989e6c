// The shape of a job that its configuration asks for.
#pragma once

#include <vector>

#include "config/job_config.h"
#include "experts/placement/expert_placement.h"
#include "parallel/topology.h"

namespace evermoe {

// The configuration has been validated.
Topology topology_of(const JobConfig& config);
// As few lanes of each stage as may ever train at a time (docs/elastic.md): memory is set aside for
// these.
std::vector<int> narrowest_lanes(const JobConfig& config);
// Which of the `lanes` of a stage hold which experts: the same number of replicas of each.
ExpertPlacement expert_placement_of(const JobConfig& config, int lanes);

}  // namespace evermoe
