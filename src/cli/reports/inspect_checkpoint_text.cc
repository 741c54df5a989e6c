#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/reports/expert_places.h"
#include "cli/reports/inspect_checkpoint_report.h"
#include "cli/reports/number_text.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

// "lanes 3 3, 2 3 from step 8 on".
std::string trained_on_text(const TrainedOn& trained_on) {
  return absl::StrCat("lanes ",
                      absl::StrJoin(trained_on, ", ", [](std::string* out, const auto& one) {
                        absl::StrAppend(out, absl::StrJoin(one.lanes, " "));
                        if (one.step > Step(0))
                          absl::StrAppend(out, " from step ", one.step.value, " on");
                      }));
}

void add_position(const CheckpointReport& report, std::string& text) {
  const Manifest& manifest = report.manifest;
  const TrainingPosition& position = manifest.position;
  absl::StrAppend(&text, "checkpoint  ", report.path, "\n");
  absl::StrAppend(&text, "step        ", with_commas(position.step.value), ", ",
                  with_commas(position.updates_applied), " updates applied, ",
                  with_commas(position.samples), " samples consumed\n");
  absl::StrAppend(&text, "saved by    ", manifest.world_size,
                  manifest.world_size == 1 ? " rank" : " ranks",
                  manifest.topology.empty() ? "" : ": ", manifest.topology, "\n");
  if (!position.trained_on.empty())
    absl::StrAppend(&text, "trained on  ", trained_on_text(position.trained_on), "\n");
  absl::StrAppend(&text, "precision   ", to_string(manifest.compute_type), ", ",
                  describe(manifest.state_types));
  if (manifest.compute_type == ElementType::kFp16) {
    absl::StrAppendFormat(&text, ", loss scale %g since %d steps", position.loss_scale,
                          position.loss_scale_good_steps);
  }
  absl::StrAppend(&text, "\n");
  if (position.validation_loss < 0)
    absl::StrAppend(&text, "validation  not evaluated\n");
  else
    absl::StrAppendFormat(&text, "validation  loss %.6g\n", position.validation_loss);
}

void add_model(const CheckpointReport& report, std::string& text) {
  if (!report.config) {
    absl::StrAppend(&text, "model       unknown: ", report.config_problem, "\n");
    return;
  }
  const ModelShape& shape = report.config->model;
  const ParameterCounts counts = count_parameters(shape);
  absl::StrAppendFormat(&text, "model       %s, %d layers, hidden %d, top-%d of %d experts\n",
                        shape.style, shape.layers, shape.hidden, shape.top_k, shape.experts);
  absl::StrAppend(&text, "parameters  ", with_commas(counts.total), ", of which a token uses ",
                  with_commas(counts.active), ", in experts ", with_commas(counts.experts), "\n");
}

// Nothing of a checkpoint in which all is of one step and nothing was ever lost.
void add_ages(const CheckpointReport& report, std::string& text) {
  const ExpertAges& ages = report.ages;
  if (ages.older == 0 && ages.unsaved_tokens == 0 && ages.lost_tokens == 0) return;
  absl::StrAppend(&text, "experts     ", to_text(ages), "\n");
  absl::StrAppend(&text, "tokens      ", with_commas(ages.unsaved_tokens),
                  " that experts lose if a run restarts from here, ", with_commas(ages.lost_tokens),
                  " that they have lost before\n");
}

Json ages_json(const ExpertAges& ages) {
  Json json = {{"by_step", Json::array()},
               {"older", ages.older},
               {"oldest", nullptr},
               {"unsaved_tokens", ages.unsaved_tokens},
               {"lost_tokens", ages.lost_tokens}};
  for (const ExpertAges::Group& group : ages.groups) {
    json["by_step"].push_back({{"step", group.step.value}, {"experts", group.experts}});
  }
  if (!ages.oldest.empty()) {
    json["oldest"] = {{"name", ages.oldest}, {"step", ages.oldest_step.value}};
  }
  return json;
}

Json model_json(const CheckpointReport& report) {
  if (!report.config) return nullptr;
  const ModelShape& shape = report.config->model;
  const ParameterCounts counts = count_parameters(shape);
  return {{"style", shape.style},
          {"layers", shape.layers},
          {"hidden", shape.hidden},
          {"vocabulary", shape.vocabulary},
          {"sequence_length", shape.sequence_length},
          {"experts", shape.experts},
          {"top_k", shape.top_k},
          {"parameters",
           {{"total", counts.total}, {"active", counts.active}, {"experts", counts.experts}}}};
}

Json position_json(const CheckpointReport& report) {
  const TrainingPosition& position = report.manifest.position;
  Json json = {{"path", report.path},
               {"step", position.step.value},
               {"samples", position.samples},
               {"updates_applied", position.updates_applied},
               {"loss_scale", position.loss_scale},
               {"loss_scale_good_steps", position.loss_scale_good_steps},
               {"validation_loss", nullptr}};
  if (position.validation_loss >= 0) json["validation_loss"] = position.validation_loss;
  json["trained_on"] = Json::array();
  for (const TrainedLanes& one : position.trained_on)
    json["trained_on"].push_back({{"step", one.step.value}, {"lanes", one.lanes}});
  return json;
}

}  // namespace

std::string to_text(const CheckpointReport& report) {
  std::string text;
  add_position(report, text);
  add_model(report, text);
  add_ages(report, text);
  const std::string places = to_text(expert_places(report.manifest.position.experts));
  if (!places.empty()) absl::StrAppend(&text, "\n", places);
  absl::StrAppendFormat(&text, "\n%-22s %10s %18s %12s\n", "operators", "count", "elements",
                        "bytes");
  for (const CheckpointReport::Kind& kind : report.kinds) {
    absl::StrAppendFormat(&text, "%-22s %10s %18s %12s\n", kind.name, with_commas(kind.operators),
                          with_commas(kind.elements), shown_bytes(kind.bytes));
  }
  size_t width = 22;
  for (const CheckpointReport::File& file : report.files) width = std::max(width, file.name.size());
  const int columns = static_cast<int>(width);
  absl::StrAppendFormat(&text, "\n%-*s %10s %18s %12s\n", columns, "files", "rank", "shards",
                        "bytes");
  for (const CheckpointReport::File& file : report.files) {
    absl::StrAppendFormat(&text, "%-*s %10d %18s %12s\n", columns, file.name, file.rank,
                          with_commas(file.shards), shown_bytes(file.bytes));
  }
  absl::StrAppendFormat(&text, "%-*s %10s %18s %12s\n", columns, "all", "",
                        with_commas(report.shards), shown_bytes(report.bytes));
  return text;
}

std::string to_json(const CheckpointReport& report) {
  const Manifest& manifest = report.manifest;
  Json json = position_json(report);
  json["world_size"] = manifest.world_size;
  json["topology"] = manifest.topology;
  for (const StatePart part : kStateParts)
    json["state_types"][to_string(part)] = to_string(type_of(manifest.state_types, part));
  if (manifest.state_types == same_types(manifest.state_types[0]))
    json["state_type"] = to_string(manifest.state_types[0]);
  json["compute_type"] = to_string(manifest.compute_type);
  json["model"] = model_json(report);
  if (!report.config) json["model_problem"] = report.config_problem;
  json["operators"] = Json::object();
  for (const CheckpointReport::Kind& kind : report.kinds) {
    json["operators"][kind.name] = {
        {"count", kind.operators}, {"elements", kind.elements}, {"bytes", kind.bytes}};
  }
  json["experts"] = ages_json(report.ages);
  json["placements"] = to_json_value(expert_places(report.manifest.position.experts));
  json["shards"] = report.shards;
  json["bytes"] = report.bytes;
  json["files"] = Json::array();
  for (const CheckpointReport::File& file : report.files) {
    json["files"].push_back(
        {{"name", file.name}, {"rank", file.rank}, {"shards", file.shards}, {"bytes", file.bytes}});
  }
  return json.dump();
}

}  // namespace evermoe
