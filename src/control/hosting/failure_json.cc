#include "control/hosting/failure_history.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/json_fields.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailuresVersion = 5;
constexpr int64_t kFailuresBytesMax = 64 << 20;
constexpr int64_t kTextBytesMax = 1 << 20;
constexpr int kDepthMax = 8;

template <typename T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// Seconds from the failure until.
Json timeline_json(const LocalRecovery& recovery) {
  return {{"detect", nullable(recovery.detect)}, {"view", nullable(recovery.view)},
          {"load", nullable(recovery.load)},     {"catch_up", nullable(recovery.catch_up)},
          {"verify", nullable(recovery.verify)}, {"resume", nullable(recovery.resume)}};
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

std::vector<std::string> texts(JsonFields& fields, const char* key) {
  std::vector<std::string> values;
  for (const nlohmann::json& value : fields.array(key)) {
    if (value.is_string())
      values.push_back(value.get<std::string>());
    else
      fields.problem(absl::StrCat(key, ": not a text"));
  }
  return values;
}

std::vector<int> stages(JsonFields& fields, const char* key) {
  std::vector<int> values;
  for (const nlohmann::json& value : fields.array(key)) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX)
      values.push_back(value.get<int>());
    else
      fields.problem(absl::StrCat(key, ": not a stage"));
  }
  return values;
}

bool truth(const nlohmann::json& json, const char* key, JsonFields& fields) {
  const auto found = json.find(key);
  const bool is_truth = found != json.end() && found->is_boolean();
  if (!is_truth) fields.problem(absl::StrCat(key, ": neither true nor false"));
  return is_truth && found->get<bool>();
}

absl::StatusOr<LocalRecovery> recovery_from(const nlohmann::json& json, JsonFields& fields) {
  LocalRecovery recovery;
  recovery.causes = texts(fields, "causes");
  recovery.standby_roles = texts(fields, "standby_roles");
  recovery.sources = texts(fields, "sources");
  recovery.rolled_back_stages = stages(fields, "rolled_back_stages");
  recovery.recomputed_steps = fields.integer("recomputed_steps", 0, INT64_MAX);
  recovery.survivor_recomputed_steps = fields.integer("survivor_recomputed_steps", 0, INT64_MAX);
  recovery.restarted_all = truth(json, "restarted_all", fields);
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

absl::StatusOr<FailureRecord> failure_from(const nlohmann::json& json) {
  JsonFields fields(json, kFailuresFile);
  FailureRecord failure;
  if (!fields.is_null("incident")) failure.incident = fields.integer("incident", 1, INT64_MAX);
  failure.roles = texts(fields, "roles");
  failure.kind = fields.text("kind", kTextBytesMax);
  failure.step = Step(fields.integer("step", -1, INT64_MAX));
  if (!fields.is_null("accused")) failure.accused = fields.text("accused", kTextBytesMax);
  if (!fields.is_null("restarted_from_step"))
    failure.restarted_from_step = Step(fields.integer("restarted_from_step", 0, INT64_MAX));
  failure.seconds_lost = fields.number("seconds_lost");
  if (!fields.is_null("timeline")) {
    ASSIGN_OR_RETURN(failure.recovery, recovery_from(json, fields));
  }
  for (const nlohmann::json& moment : fields.array("moments")) {
    JsonFields of_moment(moment, kFailuresFile);
    failure.timeline.push_back(
        {of_moment.number("seconds"), of_moment.text("what", kTextBytesMax)});
    RETURN_IF_ERROR(of_moment.status());
  }
  RETURN_IF_ERROR(fields.status());
  return failure;
}

absl::StatusOr<LanesChanged> change_from(const nlohmann::json& json) {
  JsonFields fields(json, kFailuresFile);
  LanesChanged change;
  change.step = Step(fields.integer("step", 0, INT64_MAX));
  change.nodes = static_cast<int32_t>(fields.integer("nodes", 0, INT32_MAX));
  change.lanes = stages(fields, "lanes");
  change.cause = fields.text("cause", kTextBytesMax);
  RETURN_IF_ERROR(fields.status());
  return change;
}

absl::StatusOr<ExpertMove> move_from(const nlohmann::json& json) {
  JsonFields fields(json, kFailuresFile);
  ExpertMove move;
  move.step = Step(fields.integer("step", 0, INT64_MAX));
  move.moved_bytes = fields.integer("moved_bytes", 0, INT64_MAX);
  move.imbalance_before = fields.number("imbalance_before");
  move.imbalance_after = fields.number("imbalance_after");
  move.pause_seconds = fields.number("pause_seconds");
  RETURN_IF_ERROR(fields.status());
  return move;
}

// The newest that are handed on.
template <typename T>
std::vector<T> newest_of(const std::vector<T>& all) {
  const auto kept = std::min(std::ssize(all), static_cast<std::ptrdiff_t>(kFailuresHandedOnMax));
  return {all.end() - kept, all.end()};
}

absl::StatusOr<FailureHistory> history_from(const std::string& text, const std::string& job) {
  ASSIGN_OR_RETURN(const nlohmann::json json, parse_json_strictly(text, kDepthMax, kFailuresFile));
  JsonFields fields(json, kFailuresFile);
  (void)fields.integer("version", kFailuresVersion, kFailuresVersion);
  if (fields.text("job", kTextBytesMax) != job) fields.problem("of another job");
  FailureHistory history;
  history.restarts = static_cast<int>(fields.integer("restarts", 0, INT32_MAX));
  for (const nlohmann::json& failure : fields.array("failures")) {
    ASSIGN_OR_RETURN(history.failures.emplace_back(), failure_from(failure));
  }
  for (const nlohmann::json& change : fields.array("membership_history")) {
    ASSIGN_OR_RETURN(history.membership.emplace_back(), change_from(change));
  }
  for (const nlohmann::json& move : fields.array("rebalances")) {
    ASSIGN_OR_RETURN(history.moves.emplace_back(), move_from(move));
  }
  RETURN_IF_ERROR(fields.status());
  return history;
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
  json["accused"] = nullable(failure.accused);
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

Json membership_json(const std::vector<LanesChanged>& membership) {
  Json list = Json::array();
  for (const LanesChanged& change : membership) {
    list.push_back({{"step", change.step.value},
                    {"nodes", change.nodes},
                    {"lanes", change.lanes},
                    {"cause", change.cause}});
  }
  return list;
}

Json rebalances_json(const std::vector<ExpertMove>& moves) {
  Json list = Json::array();
  for (const ExpertMove& move : moves) {
    list.push_back({{"step", move.step.value},
                    {"moved_bytes", move.moved_bytes},
                    {"imbalance_before", move.imbalance_before},
                    {"imbalance_after", move.imbalance_after},
                    {"pause_seconds", move.pause_seconds}});
  }
  return list;
}

absl::Status write_failures(Files& files, const std::string& out, const std::string& job,
                            const FailureHistory& history) {
  Json failures = Json::array();
  for (const FailureRecord& failure : newest_of(history.failures))
    failures.push_back(failure_json(failure));
  const Json json{{"version", kFailuresVersion},
                  {"job", job},
                  {"restarts", history.restarts},
                  {"failures", std::move(failures)},
                  {"membership_history", membership_json(newest_of(history.membership))},
                  {"rebalances", rebalances_json(newest_of(history.moves))}};
  return replace_file(files, join_path(out, kFailuresFile),
                      json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

FailureHistory read_failures(Files& files, const std::string& out, const std::string& job) {
  const auto text = read_file(files, join_path(out, kFailuresFile), kFailuresBytesMax);
  if (!text.ok()) return {};
  return history_from(*text, job).value_or(FailureHistory());
}

}  // namespace evermoe
