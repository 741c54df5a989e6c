#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/reports/model_report.h"
#include "cli/reports/number_text.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const StateBytes& bytes) {
  return {
      {"weights", bytes.weights}, {"gradients", bytes.gradients}, {"optimizer", bytes.optimizer}};
}

std::string columns(const StateBytes& bytes) {
  return absl::StrFormat("%12s %12s %12s %12s", shown_bytes(bytes.weights),
                         shown_bytes(bytes.gradients), shown_bytes(bytes.optimizer),
                         shown_bytes(bytes.sum()));
}

// Of a full snapshot of an operator and of a compute-only one.
double bytes_per_parameter(int64_t of_a_block) {
  return static_cast<double>(of_a_block) / kFp8BlockElements;
}

Json types_json(const TrainTypes& types) {
  Json json = {{"compute", to_string(types.compute)}};
  for (const StatePart part : kStateParts)
    json[to_string(part)] = to_string(type_of(types.state, part));
  json["bytes_per_parameter"] = {
      {"compute", bytes_per_parameter(types.compute_bytes(kFp8BlockElements))},
      {"state", bytes_per_parameter(types.full_bytes(kFp8BlockElements))}};
  return json;
}

std::string types_text(const TrainTypes& types) {
  return absl::StrFormat(
      "types       compute weights %s, %s; bytes of a parameter: %.5g and %.5g\n",
      to_string(types.compute), describe(types.state),
      bytes_per_parameter(types.compute_bytes(kFp8BlockElements)),
      bytes_per_parameter(types.full_bytes(kFp8BlockElements)));
}

std::string share_of(int64_t part, int64_t whole) {
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void add_counts(const ModelReport& report, std::string& text) {
  const ParameterCounts& counts = report.counts;
  absl::StrAppend(&text, "parameters  ", with_commas(counts.total), ", of which a token uses ",
                  with_commas(counts.active), " (", share_of(counts.active, counts.total),
                  "), in experts ", with_commas(counts.experts), "\n\n");
  absl::StrAppendFormat(&text, "%-12s %12s %18s\n", "operators", "count", "parameters");
  for (const ModelReport::Kind& kind : report.kinds) {
    absl::StrAppendFormat(&text, "%-12s %12s %18s\n", kind.name, with_commas(kind.operators),
                          with_commas(kind.parameters));
  }
}

}  // namespace

std::string to_text(const ModelReport& report, const JobConfig& config) {
  const ModelShape& shape = config.model;
  std::string text =
      absl::StrFormat("model       %s, %d layers, hidden %d, top-%d of %d experts\n", shape.style,
                      shape.layers, shape.hidden, shape.top_k, shape.experts);
  absl::StrAppend(&text, types_text(report.types));
  add_counts(report, text);
  constexpr char kColumns[] = "%12s %12s %12s %12s\n";
  absl::StrAppendFormat(&text, "\n%-12s ", "state");
  absl::StrAppendFormat(&text, kColumns, "weights", "gradients", "optimizer", "sum");
  for (const ModelReport::PrecisionRow& row : report.precisions) {
    absl::StrAppendFormat(&text, "%-12s %s\n", row.name, columns(row.bytes));
  }
  absl::StrAppendFormat(&text, "\n%5s %9s %5s %8s %16s ", "stage", "layers", "lanes", "experts",
                        "parameters");
  absl::StrAppendFormat(&text, "%12s %12s %12s %12s %12s %12s\n", "weights", "gradients",
                        "optimizer", "activations", "deferred", "sum per rank");
  for (size_t stage = 0; stage < report.stages.size(); ++stage) {
    const StageMemory& row = report.stages[stage];
    absl::StrAppendFormat(&text, "%5d %9s %5d %8d %16s %12s %12s %12s %12s %12s %12s\n", stage,
                          absl::StrCat(row.first_layer, "-", row.end_layer - 1), row.lanes,
                          row.experts_per_lane_max, with_commas(row.parameters),
                          shown_bytes(row.rank_max.weights), shown_bytes(row.rank_max.gradients),
                          shown_bytes(row.rank_max.optimizer), shown_bytes(row.activations),
                          shown_bytes(row.deferred), shown_bytes(row.rank_sum()));
  }
  if (config.parallel.world_size() > 1) {
    absl::StrAppend(
        &text, "\nbeside these, per rank at most: ", shown_bytes(config.protection.memory_budget),
        " for protection (protection.memory_budget), ", shown_bytes(report.waiting_messages),
        " for messages that wait for the service thread\n");
  }
  return text;
}

std::string to_json(const ModelReport& report, const JobConfig& config) {
  Json json = {{"style", config.model.style},
               {"parameters",
                {{"total", report.counts.total},
                 {"active", report.counts.active},
                 {"experts", report.counts.experts}}}};
  for (const ModelReport::Kind& kind : report.kinds) {
    json["operators"][kind.name] = {{"count", kind.operators}, {"parameters", kind.parameters}};
  }
  for (const ModelReport::PrecisionRow& row : report.precisions) {
    json["state_bytes"][row.name] = to_json(row.bytes);
  }
  for (const StageMemory& row : report.stages) {
    json["stages"].push_back({{"first_layer", row.first_layer},
                              {"end_layer", row.end_layer},
                              {"lanes", row.lanes},
                              {"experts_per_lane", row.experts_per_lane_max},
                              {"parameters", row.parameters},
                              {"rank_state_bytes", to_json(row.rank_max)},
                              {"rank_activation_bytes", row.activations},
                              {"rank_deferred_bytes", row.deferred}});
  }
  json["types"] = types_json(report.types);
  json["rank_waiting_message_bytes_max"] = report.waiting_messages;
  return json.dump();
}

}  // namespace evermoe
