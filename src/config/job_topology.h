// The shape of a job that its configuration asks for.
#pragma once

#include <vector>

#include "config/job_config.h"
#include "experts/migration/expert_balance.h"
#include "experts/placement/expert_placement.h"
#include "parallel/topology.h"

namespace evermoe {

// The configuration has been validated.
Topology topology_of(const JobConfig& config);
// As few lanes of each stage as may ever train at a time (docs/elastic.md): memory is set aside for
// these.
std::vector<int> narrowest_lanes(const JobConfig& config);
// For parallel/membership.h, width_of().
std::vector<int> elastic_widths(const JobConfig& config);
// Which of the `lanes` of a stage hold which experts of a layer, as a job begins.
ExpertPlacement expert_placement_of(const JobConfig& config, int lanes);
// One in which `lane` has as much to hold as it may ever come to: memory is set aside for that.
ExpertPlacement heaviest_placement(const JobConfig& config, int lanes, int lane);

// ---- experts whose replicas follow the load
bool moves_experts(const JobConfig& config);
BalanceOptions balance_options(const JobConfig& config);
// By MoE layer of the model: the lanes of its stage.
std::vector<int> lanes_of_moe_layers(const ModelShape& model, const Topology& lanes);

}  // namespace evermoe
