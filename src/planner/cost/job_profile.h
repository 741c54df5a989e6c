// A job as the planner sees it: how long a step takes, what its ranks hold, what they would have to
// copy.
//
// The numbers come from first principles (step_forecast.h) or from a run that measured them;
// `origin` says which. Where a number is per rank, it is that of the rank that has most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protection/schedule/ordering.h"

namespace evermoe {

struct JobProfile {
  std::string origin = "measured";  // or "modelled from first principles"

  double step_seconds = 0;    // fault-free, without protection
  double update_seconds = 0;  // of it: the optimizer's update, before which copies must have ended
  double tokens_per_step = 0;

  int stages = 1;
  std::vector<int> lanes = {1};  // by stage
  int rounds = 1;                // of micro-batches per step
  int lanes_per_node = 8;        // fewer than GPUs with tensor parallelism
  int nodes = 1;

  // By stage: the operators of its heaviest rank, with their bytes and times per step.
  std::vector<std::vector<OperatorProfile>> operators_of_stage;
  std::vector<double> popularity;  // of experts, as OperatorProfile::expert names them
  int64_t log_bytes = 0;           // boundary activations and gradients that a rank logs per step

  int64_t experts = 1;            // of a layer
  double state_bytes = 0;         // of the whole job: master weights and moments, each once
  double expert_state_bytes = 0;  // of it, in experts

  // Memory of a GPU.
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double activation_bytes = 0;
  double gpu_bytes() const {
    return weight_bytes + gradient_bytes + optimizer_bytes + activation_bytes;
  }

  // Full snapshot of one rank. REQUIRES: at least one stage has operators.
  double rank_state_bytes() const;
};

}  // namespace evermoe
