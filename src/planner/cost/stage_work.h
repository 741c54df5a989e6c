// What the heaviest rank of each stage computes, sends and holds: the parts of a step's forecast.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cluster_model/cluster_spec.h"
#include "planner/cluster_model/collectives.h"
#include "planner/cost/operator_work.h"
#include "planner/cost/step_forecast.h"
#include "protection/schedule/ordering.h"

namespace evermoe {

// Bytes per element: master weight and two moments; gradients accumulate in FP32.
inline constexpr double kOptimizerBytes = 12;
inline constexpr double kGradientBytes = 4;
// Of an update: read master, moments and gradient; write master, moments and compute weight.
inline constexpr double kUpdateBytes = 16 + 12 + 2;

struct StageWork {
  int rounds = 0;
  // Of one round (a micro-batch on every lane), with communication.
  double forward_seconds = 0;
  double backward_seconds = 0;
  double activation_bytes_per_round = 0;  // kept until the backward round
  double activation_bytes_again =
      0;  // of the largest layer, while what was not kept is computed again
  double sent_bytes_per_round = 0;  // over both boundaries

  double reduction_seconds = 0;  // of gradients, and gathering of updated weights; per step
  double update_seconds = 0;     // per step

  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double state_bytes() const { return weight_bytes + gradient_bytes + optimizer_bytes; }

  std::vector<OperatorProfile> operators;  // of the lane with most experts
};

// By stage, all numbers of one GPU. `operators` are those of the shape. REQUIRES: the layout fits
// the model and the cluster.
std::vector<StageWork> stage_works(const CostShape& shape,
                                   const std::vector<OperatorSpec>& operators,
                                   const JobLayout& layout, const ClusterSpec& cluster);

}  // namespace evermoe
