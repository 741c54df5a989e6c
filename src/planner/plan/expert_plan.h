// Where the experts of a layer live under a plan, and what loss of nodes their replicas survive.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "planner/cost/step_forecast.h"

namespace evermoe {

struct ExpertPlan {
  int experts = 0;   // of a layer; 0: the model has none
  int replicas = 1;  // of each
  int nodes = 0;     // of a stage; 0: stages share nodes
  int slots = 0;     // experts of a layer on each node
  int distinct_least =
      1;  // every expert is on so many nodes: one lost node fewer never loses an expert
  double survives_next = 0;  // probability that this many lost nodes of a stage leave every expert
  std::string reason;        // one sentence
};

// Experts with equal loads, placed by MRO-q (experts/placement/replica_placement.h) over the nodes
// of the narrowest stage.
ExpertPlan plan_experts(const JobProfile& job, const JobLayout& layout);

}  // namespace evermoe
