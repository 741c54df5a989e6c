#include "cli/model_report.h"

#include <algorithm>

#include "operators/operator.h"
#include "placement/expert_placement.h"
#include "placement/operator_stage.h"
#include "placement/topology.h"

namespace evermoe {
namespace {

struct TypeBytes {
  const char* name;
  int64_t compute;
  int64_t master;
  // In FP32 and FP64 the master weights are the compute weights.
  bool separate_master() const { return compute != master; }
};

constexpr TypeBytes kTypes[] = {{"fp32", 4, 4}, {"bf16", 2, 4}, {"fp16", 2, 4}, {"fp64", 8, 8}};

const TypeBytes& types_of(Precision precision) { return kTypes[static_cast<size_t>(precision)]; }

// An operator of `flat_size` elements of which `shard_size` are this rank's to update.
void add(StateBytes& bytes, const TypeBytes& types, int64_t flat_size, int64_t shard_size) {
  bytes.weights += types.compute * flat_size;
  bytes.gradients += types.master * flat_size;
  bytes.optimizer += types.master * shard_size * (types.separate_master() ? 3 : 2);
}

std::vector<ModelReport::Kind> count_kinds(const std::vector<OperatorSpec>& operators) {
  std::vector<ModelReport::Kind> kinds;
  for (const OperatorKind kind : {OperatorKind::kEmbedding, OperatorKind::kBlock, OperatorKind::kGate,
                                  OperatorKind::kExpert, OperatorKind::kHead}) {
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

std::vector<ModelReport::PrecisionRow> measure(const std::vector<OperatorSpec>& operators) {
  std::vector<ModelReport::PrecisionRow> rows;
  for (const TypeBytes& types : kTypes) {
    ModelReport::PrecisionRow row{types.name, {}};
    for (const OperatorSpec& spec : operators) add(row.bytes, types, spec.flat_size, spec.flat_size);
    rows.push_back(row);
  }
  return rows;
}

// Adds an operator to every lane that holds it. Its owners share the optimizer state (ZeRO-1).
void add_to_lanes(const OperatorSpec& spec, const ExpertPlacement& placement, const TypeBytes& types,
                  std::vector<StateBytes>& lanes) {
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

ModelReport::StageRow measure_stage(const std::vector<OperatorSpec>& operators,
                                    const JobConfig& config, const Topology& topology, int stage) {
  ModelReport::StageRow row;
  row.first_layer = topology.first_layer(stage);
  row.end_layer = topology.first_layer(stage + 1);
  row.lanes = topology.lanes(stage);
  const ExpertPlacement placement = ExpertPlacement::uniform(
      static_cast<int>(config.model.experts), topology.lanes(stage),
      static_cast<int>(config.parallel.expert_replicas));
  std::vector<StateBytes> lanes(static_cast<size_t>(row.lanes));
  for (const OperatorSpec& spec : operators) {
    if (stage_of(spec, topology) != stage) continue;
    row.parameters += spec.parameter_count();
    add_to_lanes(spec, placement, types_of(config.train.precision), lanes);
    if (spec.kind != OperatorKind::kGate) continue;
    for (int lane = 0; lane < placement.lane_count(); ++lane) {
      const auto experts = static_cast<int64_t>(placement.experts_on(lane).size());
      row.experts_per_lane_max = std::max(row.experts_per_lane_max, experts);
    }
  }
  row.rank_max = *std::max_element(
      lanes.begin(), lanes.end(),
      [](const StateBytes& a, const StateBytes& b) { return a.sum() < b.sum(); });
  return row;
}

}  // namespace

ModelReport report_model(const JobConfig& config) {
  const std::vector<OperatorSpec> operators = model_operators(config.model);
  const Topology topology({config.parallel.lanes.begin(), config.parallel.lanes.end()},
                          config.model.layers);
  ModelReport report;
  report.counts = count_parameters(config.model);
  report.kinds = count_kinds(operators);
  report.precisions = measure(operators);
  for (int stage = 0; stage < topology.stages(); ++stage) {
    report.stages.push_back(measure_stage(operators, config, topology, stage));
  }
  return report;
}

}  // namespace evermoe
