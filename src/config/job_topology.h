// The shape of a job that its configuration asks for.
#pragma once

#include "config/job_config.h"
#include "experts/placement/expert_placement.h"
#include "parallel/topology.h"

namespace evermoe {

// The configuration has been validated.
Topology topology_of(const JobConfig& config);
// Which of the `lanes` of a stage hold which experts: the same number of replicas of each.
ExpertPlacement expert_placement_of(const JobConfig& config, int lanes);

}  // namespace evermoe
