#include "cli/reports/model_report.h"

#include <algorithm>
#include <utility>

#include "comm/transport/transport.h"
#include "config/job_topology.h"
#include "model/activation_bytes.h"
#include "model/operator.h"
#include "parallel/operator_stage.h"
#include "parallel/pipeline_schedule.h"

namespace evermoe {
namespace {

constexpr std::pair<const char*, Precision> kPrecisions[] = {{"fp32", Precision::kFp32},
                                                             {"bf16", Precision::kBf16},
                                                             {"fp16", Precision::kFp16},
                                                             {"fp64", Precision::kFp64}};

// An operator of `flat_size` elements of which `shard_size` are this rank's to update. Where both
// types are the same, the master weights are the compute weights.
void add(StateBytes& bytes, const TrainTypes& types, int64_t flat_size, int64_t shard_size) {
  bytes.weights += types.compute_bytes(flat_size);
  if (types.activations != types.compute)
    bytes.weights += stored_bytes(types.activations, flat_size);
  bytes.gradients += types.sum_bytes(flat_size);
  bytes.optimizer += types.full_bytes(shard_size);
  if (types.is_master_compute()) bytes.optimizer -= types.compute_bytes(shard_size);
}

std::vector<ModelReport::Kind> count_kinds(const std::vector<OperatorSpec>& operators) {
  std::vector<ModelReport::Kind> kinds;
  for (const OperatorKind kind :
       {OperatorKind::kEmbedding, OperatorKind::kBlock, OperatorKind::kGate, OperatorKind::kExpert,
        OperatorKind::kHead}) {
    ModelReport::Kind row{to_string(kind)};
    for (const OperatorSpec& spec : operators) {
      if (spec.kind != kind) continue;
      ++row.operators;
      row.parameters += spec.parameter_count();
    }
    kinds.push_back(row);
  }
  return kinds;
}

std::vector<ModelReport::PrecisionRow> measure(const std::vector<OperatorSpec>& operators,
                                               const TrainTypes& configured) {
  std::vector<ModelReport::PrecisionRow> rows;
  const auto add_row = [&](const char* name, const TrainTypes& types) {
    ModelReport::PrecisionRow row{name, {}};
    for (const OperatorSpec& spec : operators)
      add(row.bytes, types, spec.flat_size, spec.flat_size);
    rows.push_back(row);
  };
  bool is_known = false;
  for (const auto& [name, precision] : kPrecisions) {
    add_row(name, train_types(precision));
    is_known = is_known || configured == train_types(precision);
  }
  if (!is_known) add_row("configured", configured);
  return rows;
}

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
    add(lanes[static_cast<size_t>(owners[static_cast<size_t>(i)])], types, spec.flat_size,
        shard_range(spec.flat_size, count, i).size());
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
                     ModelReport::StageRow& row) {
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
       .first_layer = row.first_layer,
       .end_layer = row.end_layer,
       .holds_head = topology.holds_head(stage),
       .rounds_in_flight = rounds_in_flight_max(order),
       .micro_batches = round_count(topology.lanes(stage), static_cast<int>(train.micro_batches))});
  row.activations = bytes.peak();
  // A job of one worker never waits, so it puts nothing off.
  if (topology.world_size() > 1) row.deferred = std::min(bytes.deferred, train.deferred_bytes);
}

ModelReport::StageRow measure_stage(const std::vector<OperatorSpec>& operators,
                                    const JobConfig& config, const Topology& topology, int stage) {
  ModelReport::StageRow row;
  row.first_layer = topology.first_layer(stage);
  row.end_layer = topology.first_layer(stage + 1);
  row.lanes = topology.lanes(stage);
  const ExpertPlacement placement = expert_placement_of(config, topology.lanes(stage));
  std::vector<StateBytes> lanes(static_cast<size_t>(row.lanes));
  for (const OperatorSpec& spec : operators) {
    if (stage_of(spec, topology) != stage) continue;
    row.parameters += spec.parameter_count();
    add_to_lanes(spec, placement, train_types(config.train), lanes);
    if (spec.kind != OperatorKind::kGate) continue;
    for (int lane = 0; lane < placement.lane_count(); ++lane) {
      const auto experts = static_cast<int64_t>(placement.experts_on(lane).size());
      row.experts_per_lane_max = std::max(row.experts_per_lane_max, experts);
    }
  }
  row.rank_max =
      *std::max_element(lanes.begin(), lanes.end(),
                        [](const StateBytes& a, const StateBytes& b) { return a.sum() < b.sum(); });
  add_activations(config, topology, stage, row);
  return row;
}

// With "auto" there are two transports, and between them as much as one sender may have waiting.
int64_t waiting_messages_max(const std::string& transport) {
  constexpr auto kOfOne = static_cast<int64_t>(Transport::kServiceBytesMax);
  constexpr auto kOfAll = static_cast<int64_t>(Transport::kServiceBytesOfAllMax);
  return transport == "auto" ? 2 * kOfAll + kOfOne : kOfAll;
}

}  // namespace

ModelReport report_model(const JobConfig& config) {
  const std::vector<OperatorSpec> operators = model_operators(config.model);
  const Topology topology = topology_of(config);
  ModelReport report;
  report.counts = count_parameters(config.model);
  report.kinds = count_kinds(operators);
  report.types = train_types(config.train);
  report.precisions = measure(operators, report.types);
  for (int stage = 0; stage < topology.stages(); ++stage) {
    report.stages.push_back(measure_stage(operators, config, topology, stage));
  }
  if (topology.world_size() > 1)
    report.waiting_messages = waiting_messages_max(config.parallel.transport);
  return report;
}

}  // namespace evermoe
