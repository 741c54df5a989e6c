#include "cli/reports/model_report.h"

#include <utility>

#include "comm/transport/transport.h"
#include "config/job_topology.h"
#include "model/operator.h"

namespace evermoe {
namespace {

constexpr std::pair<const char*, Precision> kPrecisions[] = {{"fp32", Precision::kFp32},
                                                             {"bf16", Precision::kBf16},
                                                             {"fp16", Precision::kFp16},
                                                             {"fp64", Precision::kFp64}};

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
    for (const OperatorSpec& spec : operators) row.bytes.add(types, spec.flat_size, spec.flat_size);
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
    report.stages.push_back(stage_memory(config, topology, stage));
  }
  if (topology.world_size() > 1)
    report.waiting_messages = waiting_messages_max(config.parallel.transport);
  return report;
}

}  // namespace evermoe
