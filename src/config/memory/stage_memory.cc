#include "config/memory/stage_memory.h"

#include <algorithm>
#include <vector>

#include "config/job_topology.h"
#include "model/activation_bytes.h"
#include "parallel/operator_stage.h"
#include "parallel/pipeline_schedule.h"

namespace evermoe {

// Where both types are the same, the master weights are the compute weights.
void StateBytes::add(const TrainTypes& types, int64_t flat_size, int64_t shard_size) {
  weights += types.compute_bytes(flat_size);
  if (types.activations != types.compute) weights += stored_bytes(types.activations, flat_size);
  gradients += types.sum_bytes(flat_size);
  optimizer += types.full_bytes(shard_size);
  if (types.is_master_compute()) optimizer -= types.compute_bytes(shard_size);
}

namespace {

// Adds an operator to every lane that holds it. Its owners share the optimizer state (ZeRO-1).
void add_to_lanes(const OperatorSpec& spec, const ExpertPlacement& placement,
                  const TrainTypes& types, std::vector<StateBytes>& lanes) {
  std::vector<int> owners;
  if (spec.kind == OperatorKind::kExpert) {
    owners = placement.lanes_of(spec.expert);
  } else {
    for (int lane = 0; lane < placement.lane_count(); ++lane) owners.push_back(lane);
  }
  const int count = static_cast<int>(owners.size());
  for (int i = 0; i < count; ++i) {
    lanes[static_cast<size_t>(owners[static_cast<size_t>(i)])].add(
        types, spec.flat_size, shard_range(spec.flat_size, count, i).size());
  }
}

KeptActivations kept_with(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone: return KeptActivations::kAll;
    case Recompute::kExperts: return KeptActivations::kOutsideExperts;
    case Recompute::kLayer: return KeptActivations::kLayerInputs;
  }
  return KeptActivations::kAll;
}

void add_activations(const JobConfig& config, const Topology& topology, int stage,
                     StageMemory& memory) {
  const TrainConfig& train = config.train;
  std::vector<int> widths;
  for (int s = 0; s < topology.stages(); ++s) widths.push_back(topology.lanes(s));
  const auto order =
      pipeline_schedule(widths, static_cast<int>(train.micro_batches))[static_cast<size_t>(stage)];
  const ActivationBytes bytes = activation_bytes(
      config.model,
      {.micro_batch_size = train.micro_batch_size,
       .element_bytes = compute_bytes(train.precision),
       .kept = kept_with(train.recompute),
       .first_layer = memory.first_layer,
       .end_layer = memory.end_layer,
       .holds_head = topology.holds_head(stage),
       .rounds_in_flight = rounds_in_flight_max(order),
       .micro_batches = round_count(topology.lanes(stage), static_cast<int>(train.micro_batches))});
  memory.activations = bytes.peak();
  // A job of one worker never waits, so it puts nothing off.
  if (topology.world_size() > 1) memory.deferred = std::min(bytes.deferred, train.deferred_bytes);
}

}  // namespace

StageMemory stage_memory(const JobConfig& config, const Topology& topology, int stage) {
  StageMemory memory;
  memory.first_layer = topology.first_layer(stage);
  memory.end_layer = topology.first_layer(stage + 1);
  memory.lanes = topology.lanes(stage);
  const ExpertPlacement placement = expert_placement_of(config, topology.lanes(stage));
  std::vector<StateBytes> lanes(static_cast<size_t>(memory.lanes));
  for (const OperatorSpec& spec : model_operators(config.model)) {
    if (stage_of(spec, topology) != stage) continue;
    memory.parameters += spec.parameter_count();
    add_to_lanes(spec, placement, train_types(config.train), lanes);
    if (spec.kind != OperatorKind::kGate) continue;
    for (int lane = 0; lane < placement.lane_count(); ++lane) {
      const auto experts = static_cast<int64_t>(placement.experts_on(lane).size());
      memory.experts_per_lane_max = std::max(memory.experts_per_lane_max, experts);
    }
  }
  memory.rank_max =
      *std::max_element(lanes.begin(), lanes.end(),
                        [](const StateBytes& a, const StateBytes& b) { return a.sum() < b.sum(); });
  add_activations(config, topology, stage, memory);
  return memory;
}

}  // namespace evermoe
