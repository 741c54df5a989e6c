#include "train/step/examination.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/json_fields.h"
#include "model/model_shape.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kDoubtful[] = "evermoe/doubtful";
constexpr int kExaminationVersion = 1;
constexpr int kDepthMax = 4;
constexpr int64_t kNameBytesMax = 256;
constexpr NonFinitePhase kPhases[] = {NonFinitePhase::kState, NonFinitePhase::kValidation,
                                      NonFinitePhase::kForward, NonFinitePhase::kBackward,
                                      NonFinitePhase::kWeightGradient};

std::string operator_at(const NonFinite& place, const ModelShape& shape) {
  return model_operators(shape).at(static_cast<size_t>(place.operator_index)).name;
}

NonFinite read_place(JsonFields fields, const ModelShape& shape, absl::Status& status) {
  NonFinite place;
  if (!fields.is_null("micro_batch"))
    place.micro_batch = static_cast<int32_t>(fields.integer("micro_batch", 0, INT32_MAX));
  const std::string phase = fields.text("phase", kNameBytesMax);
  const auto known =
      std::ranges::find_if(kPhases, [&](NonFinitePhase one) { return phase == to_string(one); });
  if (known == std::end(kPhases))
    fields.problem(absl::StrCat("\"", phase, "\" is no phase"));
  else
    place.phase = *known;
  const std::string name = fields.text("operator", kNameBytesMax);
  const std::vector<OperatorSpec> operators = model_operators(shape);
  const auto found = std::ranges::find(operators, name, &OperatorSpec::name);
  if (found == operators.end())
    fields.problem(absl::StrCat("\"", name, "\" is no operator of this model"));
  else
    place.operator_index = static_cast<int32_t>(found - operators.begin());
  status.Update(fields.status());
  return place;
}

ExaminedSample read_sample(JsonFields fields, absl::Status& status) {
  ExaminedSample sample;
  sample.micro_batch = static_cast<int32_t>(fields.integer("micro_batch", 0, INT32_MAX));
  sample.window = fields.integer("window", 0, INT64_MAX);
  sample.begin = fields.integer("tokens_begin", 0, INT64_MAX);
  sample.end = fields.integer("tokens_end", sample.begin, INT64_MAX);
  status.Update(fields.status());
  return sample;
}

}  // namespace

absl::Status Doubtful(std::string message) {
  absl::Status status = absl::AbortedError(std::move(message));
  status.SetPayload(kDoubtful, absl::Cord());
  return status;
}

bool is_doubtful(const absl::Status& status) { return status.GetPayload(kDoubtful).has_value(); }

std::string to_json(const Examination& examination, const ModelShape& shape) {
  const NonFinite& first = examination.first;
  Json samples = Json::array();
  for (const ExaminedSample& sample : examination.samples) {
    samples.push_back({{"micro_batch", sample.micro_batch},
                       {"window", sample.window},
                       {"tokens_begin", sample.begin},
                       {"tokens_end", sample.end}});
  }
  Json second;
  if (examination.second) {
    second = {{"node", examination.second->node},
              {"is_reproduced", examination.second->is_reproduced}};
  }
  const Json json = {
      {"version", kExaminationVersion},
      {"step", examination.step.value},
      {"rank", examination.rank.value},
      {"role", examination.role},
      {"node", examination.node},
      {"first_non_finite",
       {{"micro_batch", first.micro_batch >= 0 ? Json(first.micro_batch) : Json()},
        {"operator", operator_at(first, shape)},
        {"phase", to_string(first.phase)}}},
      {"samples", samples},
      {"checkpoint",
       examination.checkpoint > Step(0) ? Json(examination.checkpoint.value) : Json()},
      {"second", second}};
  return json.dump(2) + "\n";
}

absl::StatusOr<Examination> parse_examination(const std::string& text, const std::string& name,
                                              const ModelShape& shape) {
  ASSIGN_OR_RETURN(const nlohmann::json json, parse_json_strictly(text, kDepthMax, name));
  JsonFields fields(json, name);
  (void)fields.integer("version", kExaminationVersion, kExaminationVersion);
  absl::Status status;
  Examination examination;
  examination.step = Step(fields.integer("step", 1, INT64_MAX));
  examination.rank = Rank(static_cast<int32_t>(fields.integer("rank", 0, INT32_MAX)));
  examination.role = fields.text("role", kNameBytesMax);
  examination.node = static_cast<int32_t>(fields.integer("node", 0, INT32_MAX));
  examination.first =
      read_place(JsonFields(fields.object("first_non_finite"), name), shape, status);
  for (const nlohmann::json& sample : fields.array("samples"))
    examination.samples.push_back(read_sample(JsonFields(sample, name), status));
  if (!fields.is_null("checkpoint"))
    examination.checkpoint = Step(fields.integer("checkpoint", 1, INT64_MAX));
  if (!fields.is_null("second")) {
    JsonFields second(fields.object("second"), name);
    examination.second = {static_cast<int32_t>(second.integer("node", 0, INT32_MAX)),
                          second.boolean("is_reproduced")};
    status.Update(second.status());
  }
  status.Update(fields.status());
  if (!status.ok()) return status;
  return examination;
}

std::string describe(const Examination& examination, const ModelShape& shape) {
  const NonFinite& first = examination.first;
  std::string text = absl::StrCat("a number that is not finite was made by role ", examination.role,
                                  " on node ", examination.node, " of finite ones in ",
                                  operator_at(first, shape), ", ", to_string(first.phase));
  if (first.micro_batch >= 0) absl::StrAppend(&text, ", micro-batch ", first.micro_batch);
  absl::StrAppend(&text, " of step ", examination.step.value);
  if (!examination.second) return text;
  return absl::StrCat(text, ", and computed again on node ", examination.second->node,
                      examination.second->is_reproduced
                          ? " it is not finite either: the samples, or the model, are at fault"
                          : " it is finite: the machine was at fault");
}

OriginDecision decide_origin(const OriginAsked& asked) {
  if (asked.lowers_scale || asked.skipped_in_row > 0) return OriginDecision::kPass;
  if (asked.own && !asked.own->second) return OriginDecision::kReproduced;
  if (asked.own && asked.own->second->is_reproduced) return OriginDecision::kPass;
  // A machine was at fault, and the job has come here again.
  if (asked.own) return OriginDecision::kAttempt;
  return asked.has_others ? OriginDecision::kPass : OriginDecision::kAttempt;
}

std::optional<std::vector<int64_t>> quarantined_with(const std::vector<int64_t>& before,
                                                     const std::vector<int64_t>& more,
                                                     int64_t windows) {
  std::set<int64_t> all(before.begin(), before.end());
  all.insert(more.begin(), more.end());
  const auto count = static_cast<int64_t>(all.size());
  if (count > kQuarantinedWindowsMax || 2 * count > windows) return std::nullopt;
  return std::vector<int64_t>(all.begin(), all.end());
}

}  // namespace evermoe
