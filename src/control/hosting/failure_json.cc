#include "control/hosting/failure_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/json_null.h"
#include "control/hosting/json_lists.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kWhere[] = "a failure";

// Seconds from the failure until.
Json timeline_json(const LocalRecovery& recovery) {
  return {{"detect", or_null(recovery.detect)}, {"view", or_null(recovery.view)},
          {"load", or_null(recovery.load)},     {"catch_up", or_null(recovery.catch_up)},
          {"verify", or_null(recovery.verify)}, {"resume", or_null(recovery.resume)}};
}

bool are_all_on_standbys(const FailureRecord& failure) {
  if (!failure.recovery || failure.roles.empty()) return false;
  const std::vector<std::string>& taken = failure.recovery->standby_roles;
  return std::ranges::all_of(failure.roles, [&](const std::string& role) {
    return std::ranges::find(taken, role) != taken.end();
  });
}

void add_recovery(const LocalRecovery& recovery, Json& json) {
  json["causes"] = recovery.causes;
  json["standby_roles"] = recovery.standby_roles;
  json["sources"] = recovery.sources;
  json["rolled_back_stages"] = recovery.rolled_back_stages;
  json["recomputed_steps"] = recovery.recomputed_steps;
  json["survivor_recomputed_steps"] = recovery.survivor_recomputed_steps;
  json["restarted_all"] = recovery.restarted_all;
}

// Of a field that may be null.
std::optional<double> seconds(JsonFields& fields, const char* key) {
  return fields.is_null(key) ? std::nullopt : std::optional(fields.number(key));
}

absl::StatusOr<LocalRecovery> recovery_from(JsonFields& fields) {
  LocalRecovery recovery;
  recovery.causes = texts(fields, "causes");
  recovery.standby_roles = texts(fields, "standby_roles");
  recovery.sources = texts(fields, "sources");
  recovery.rolled_back_stages = numbers(fields, "rolled_back_stages");
  recovery.recomputed_steps = fields.integer("recomputed_steps", 0, INT64_MAX);
  recovery.survivor_recomputed_steps = fields.integer("survivor_recomputed_steps", 0, INT64_MAX);
  recovery.restarted_all = fields.boolean("restarted_all");
  JsonFields timeline(fields.object("timeline"), "timeline");
  recovery.detect = seconds(timeline, "detect");
  recovery.view = seconds(timeline, "view");
  recovery.load = seconds(timeline, "load");
  recovery.catch_up = seconds(timeline, "catch_up");
  recovery.verify = seconds(timeline, "verify");
  recovery.resume = seconds(timeline, "resume");
  RETURN_IF_ERROR(timeline.status());
  return recovery;
}

}  // namespace

Json failure_json(const FailureRecord& failure) {
  Json moments = Json::array();
  for (const FailureMoment& moment : failure.timeline) {
    moments.push_back({{"seconds", moment.seconds}, {"what", moment.what}});
  }
  Json json;
  json["incident"] = failure.incident == 0 ? Json() : Json(failure.incident);
  json["roles"] = failure.roles;
  json["kind"] = failure.kind;
  json["step"] = failure.step.value;
  json["accused"] = or_null(failure.accused);
  json["restarted_from_step"] =
      failure.restarted_from_step ? Json(failure.restarted_from_step->value) : Json();
  json["seconds_lost"] = failure.seconds_lost;
  add_recovery(failure.recovery.value_or(
                   LocalRecovery{.restarted_all = failure.restarted_from_step.has_value()}),
               json);
  json["standby"] = are_all_on_standbys(failure);
  json["timeline"] = failure.recovery ? timeline_json(*failure.recovery) : Json();
  json["moments"] = std::move(moments);
  return json;
}

absl::StatusOr<FailureRecord> failure_from(const nlohmann::json& json) {
  JsonFields fields(json, kWhere);
  FailureRecord failure;
  if (!fields.is_null("incident")) failure.incident = fields.integer("incident", 1, INT64_MAX);
  failure.roles = texts(fields, "roles");
  failure.kind = fields.text("kind", kRecordTextBytesMax);
  failure.step = Step(fields.integer("step", -1, INT64_MAX));
  if (!fields.is_null("accused")) failure.accused = fields.text("accused", kRecordTextBytesMax);
  if (!fields.is_null("restarted_from_step"))
    failure.restarted_from_step = Step(fields.integer("restarted_from_step", 0, INT64_MAX));
  failure.seconds_lost = fields.number("seconds_lost");
  if (!fields.is_null("timeline")) {
    ASSIGN_OR_RETURN(failure.recovery, recovery_from(fields));
  }
  for (const nlohmann::json& moment : fields.array("moments")) {
    JsonFields of_moment(moment, kWhere);
    failure.timeline.push_back(
        {of_moment.number("seconds"), of_moment.text("what", kRecordTextBytesMax)});
    RETURN_IF_ERROR(of_moment.status());
  }
  RETURN_IF_ERROR(fields.status());
  return failure;
}

}  // namespace evermoe
