#include "faults/fault_script.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/limits.h"
#include "faults/fault_points.h"
#include "faults/fault_table.h"
#include "toml/toml_text.h"

namespace evermoe {
namespace {

constexpr int64_t kStepMax = 1'000'000'000;
constexpr int64_t kReachedMax = 1'000'000;
constexpr int64_t kRecoveryMax = 1'000'000;
constexpr int64_t kTokensMax = int64_t{1} << 50;
constexpr double kSecondsMax = 1e9;
constexpr double kFactorMin = 1;
constexpr double kFactorMax = 100;
constexpr char kFirstPoint[] = "step/forward";
constexpr char kFirstPointOfRecovery[] = "recovery/stopped";
constexpr char kPointsOfLeaver[] = "move/copying, move/hand_over, move/handed_over";
constexpr char kPointsOfJoiner[] =
    "recovery/stopped, recovery/plan, recovery/opening, recovery/restored";

constexpr const char* kKeys[] = {"kind",       "stage",       "lane",          "other_stage",
                                 "other_lane", "node",        "step",          "point",
                                 "reached",    "in_recovery", "after_seconds", "tokens_begin",
                                 "tokens_end", "seconds",     "factor"};

absl::StatusOr<FaultKind> read_kind(const FaultTable& table) {
  std::string allowed;
  for (const FaultKind kind : kFaultKinds) {
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", to_string(kind));
  }
  ASSIGN_OR_RETURN(const std::string word, table.word("kind", allowed));
  return *std::find_if(std::begin(kFaultKinds), std::end(kFaultKinds),
                       [&](FaultKind kind) { return word == to_string(kind); });
}

absl::StatusOr<FaultRole> read_role(const FaultTable& table, const char* stage_key,
                                    const char* lane_key, const FaultLimits& limits) {
  ASSIGN_OR_RETURN(const int64_t stage, table.integer(stage_key, 0, std::ssize(limits.lanes) - 1));
  const int lanes = limits.lanes[static_cast<size_t>(stage)];
  ASSIGN_OR_RETURN(const int64_t lane, table.integer(lane_key, 0, lanes - 1));
  return FaultRole{static_cast<int>(stage), static_cast<int>(lane)};
}

absl::Status read_other_end(const FaultTable& table, const FaultLimits& limits, Fault& fault) {
  if (fault.kind != FaultKind::kCutConnection) {
    RETURN_IF_ERROR(table.refuse("other_stage", "only with kind cut_connection"));
    return table.refuse("other_lane", "only with kind cut_connection");
  }
  ASSIGN_OR_RETURN(fault.other, read_role(table, "other_stage", "other_lane", limits));
  if (fault.other != fault.role) return absl::OkStatus();
  return table.not_allowed("other_lane", "another worker than that of stage and lane");
}

absl::Status read_node(const FaultTable& table, const FaultLimits& limits, Fault& fault) {
  const std::string not_with = absl::StrCat("not with kind ", to_string(fault.kind));
  RETURN_IF_ERROR(table.refuse("stage", not_with));
  RETURN_IF_ERROR(table.refuse("lane", not_with));
  // Others than those that the job begins with may have been added.
  const int64_t last = is_of_run(fault.kind) ? kJobNodesMax - 1 : limits.nodes - 1;
  ASSIGN_OR_RETURN(const int64_t node, table.integer("node", 0, last));
  fault.node = static_cast<int>(node);
  return absl::OkStatus();
}

// The worker whose passing of the point kills the controller.
absl::Status read_witness(const FaultTable& table, const FaultLimits& limits, Fault& fault) {
  if (table.has("after_seconds")) {
    RETURN_IF_ERROR(table.refuse("stage", "not with kind kill_controller and after_seconds"));
    return table.refuse("lane", "not with kind kill_controller and after_seconds");
  }
  if (!table.has("stage") && !table.has("lane")) return absl::OkStatus();
  ASSIGN_OR_RETURN(fault.role, read_role(table, "stage", "lane", limits));
  return absl::OkStatus();
}

absl::Status read_target(const FaultTable& table, const FaultLimits& limits, Fault& fault) {
  if (fault.kind == FaultKind::kKillNode || is_of_run(fault.kind)) {
    RETURN_IF_ERROR(read_node(table, limits, fault));
    return read_other_end(table, limits, fault);
  }
  RETURN_IF_ERROR(table.refuse("node",
                               "only with kinds kill_node, lose_node, return_node, add_node and "
                               "notice_node"));
  if (fault.kind == FaultKind::kKillController) {
    RETURN_IF_ERROR(read_witness(table, limits, fault));
  } else {
    ASSIGN_OR_RETURN(fault.role, read_role(table, "stage", "lane", limits));
  }
  return read_other_end(table, limits, fault);
}

absl::Status read_moment(const FaultTable& table, FaultKind kind, FaultMoment& moment) {
  if (!table.has("step") && !table.has("in_recovery")) {
    return table.not_allowed("step", absl::StrCat("integer from 1 to ", kStepMax,
                                                  ", or in_recovery or after_seconds instead"));
  }
  if (table.has("step")) {
    ASSIGN_OR_RETURN(const int64_t step, table.integer("step", 1, kStepMax));
    moment.step = Step(step);
  }
  if (table.has("in_recovery")) {
    ASSIGN_OR_RETURN(const int64_t recovery, table.integer("in_recovery", 1, kRecoveryMax));
    moment.recovery = static_cast<int>(recovery);
  }
  moment.point = moment.recovery ? kFirstPointOfRecovery : kFirstPoint;
  if (table.has("point")) {
    ASSIGN_OR_RETURN(moment.point, table.word("point", known_fault_point_names()));
  }
  if (kind == FaultKind::kCorruptState && !is_between_updates(moment.point))
    return table.not_allowed("point", fault_points_between_updates());
  if (kind == FaultKind::kCorruptResult && !is_before_computing(moment.point))
    return table.not_allowed("point", fault_points_before_computing());
  if (table.has("reached")) {
    ASSIGN_OR_RETURN(moment.reached, table.integer("reached", 0, kReachedMax));
  }
  return absl::OkStatus();
}

absl::Status read_step(const FaultTable& table, Fault& fault) {
  for (const char* key : {"point", "reached", "in_recovery"})
    RETURN_IF_ERROR(table.refuse(key, absl::StrCat("not with kind ", to_string(fault.kind))));
  if (table.has("after_seconds")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t step, table.integer("step", 1, kStepMax));
  fault.after_step = Step(step);
  return absl::OkStatus();
}

absl::Status read_time_of_move(const FaultTable& table, Fault& fault) {
  for (const char* key : {"step", "reached", "in_recovery", "after_seconds"})
    RETURN_IF_ERROR(table.refuse(key, absl::StrCat("not with kind ", to_string(fault.kind))));
  const bool is_leaver = fault.kind == FaultKind::kKillLeaver;
  FaultMoment& moment = fault.moment.emplace();
  moment.point = is_leaver ? "move/handed_over" : "recovery/plan";
  if (!table.has("point")) return absl::OkStatus();
  ASSIGN_OR_RETURN(moment.point,
                   table.word("point", is_leaver ? kPointsOfLeaver : kPointsOfJoiner));
  return absl::OkStatus();
}

absl::Status read_time(const FaultTable& table, Fault& fault) {
  if (is_of_move(fault.kind)) return read_time_of_move(table, fault);
  if (is_of_run(fault.kind)) RETURN_IF_ERROR(read_step(table, fault));
  if (fault.after_step) return absl::OkStatus();
  if (!table.has("after_seconds")) return read_moment(table, fault.kind, fault.moment.emplace());
  if (fault.kind == FaultKind::kCorruptState || fault.kind == FaultKind::kCorruptResult)
    return table.refuse("after_seconds", absl::StrCat("not with kind ", to_string(fault.kind)));
  for (const char* key : {"step", "point", "reached", "in_recovery"}) {
    RETURN_IF_ERROR(table.refuse(key, "not with after_seconds"));
  }
  ASSIGN_OR_RETURN(fault.after_seconds, table.number("after_seconds", 0, kSecondsMax));
  return absl::OkStatus();
}

absl::Status read_tokens(const FaultTable& table, Fault& fault) {
  for (const char* key : kKeys) {
    const std::string name(key);
    if (name != "kind" && !name.starts_with("tokens_"))
      RETURN_IF_ERROR(table.refuse(name, "not with kind poison_samples"));
  }
  ASSIGN_OR_RETURN(fault.tokens_begin, table.integer("tokens_begin", 0, kTokensMax));
  ASSIGN_OR_RETURN(fault.tokens_end,
                   table.integer("tokens_end", fault.tokens_begin + 1, kTokensMax));
  return absl::OkStatus();
}

absl::StatusOr<Fault> read_fault(const FaultTable& table, const FaultLimits& limits) {
  Fault fault;
  RETURN_IF_ERROR(table.check_keys(kKeys));
  ASSIGN_OR_RETURN(fault.kind, read_kind(table));
  if (fault.kind == FaultKind::kPoisonSamples) {
    RETURN_IF_ERROR(read_tokens(table, fault));
    return fault;
  }
  for (const char* key : {"tokens_begin", "tokens_end"})
    RETURN_IF_ERROR(table.refuse(key, "only with kind poison_samples"));
  RETURN_IF_ERROR(read_target(table, limits, fault));
  if (fault.kind == FaultKind::kNoticeNode) {
    ASSIGN_OR_RETURN(fault.seconds, table.number("seconds", 0, kSecondsMax));
  } else {
    RETURN_IF_ERROR(table.refuse("seconds", "only with kind notice_node"));
  }
  if (fault.kind == FaultKind::kSlowWorker) {
    ASSIGN_OR_RETURN(fault.factor, table.number("factor", kFactorMin, kFactorMax));
  } else {
    RETURN_IF_ERROR(table.refuse("factor", "only with kind slow_worker"));
  }
  RETURN_IF_ERROR(read_time(table, fault));
  return fault;
}

absl::StatusOr<toml::table> parse_document(const std::string& text, const std::string& origin) {
  if (std::ssize(text) > kFaultScriptBytesMax) {
    return InvalidInput(absl::StrCat(origin, ": found ", text.size(), " bytes, allowed: at most ",
                                     kFaultScriptBytesMax));
  }
  return parse_toml(text, origin);
}

absl::StatusOr<FaultScript> read_faults(const toml::node& node, const toml::key& key,
                                        const std::string& origin, const FaultLimits& limits) {
  const toml::array* array = node.as_array();
  const bool are_tables =
      array != nullptr && (array->empty() || array->is_homogeneous<toml::table>());
  if (!are_tables || std::ssize(*array) > kFaultsMax) {
    return InvalidInput(absl::StrCat(script_place(origin, key.source()), ": fault: found ",
                                     found_in_script(node), ", allowed: at most ", kFaultsMax,
                                     " tables [[fault]]"));
  }
  FaultScript script;
  for (const toml::node& element : *array) {
    ASSIGN_OR_RETURN(Fault fault, read_fault(FaultTable(*element.as_table(), origin), limits));
    fault.index = static_cast<int>(script.faults.size());
    script.faults.push_back(std::move(fault));
  }
  return script;
}

void append_role(std::string& text, const char* prefix, const FaultRole& role) {
  absl::StrAppend(&text, prefix, "stage = ", role.stage, "\n", prefix, "lane = ", role.lane, "\n");
}

std::string number_to_toml(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string target_to_toml(const Fault& fault) {
  std::string text;
  if (fault.kind == FaultKind::kPoisonSamples)
    return absl::StrCat("tokens_begin = ", fault.tokens_begin, "\ntokens_end = ", fault.tokens_end,
                        "\n");
  if (fault.kind == FaultKind::kKillNode || is_of_run(fault.kind))
    text = absl::StrCat("node = ", fault.node, "\n");
  if (fault.kind == FaultKind::kNoticeNode)
    absl::StrAppend(&text, "seconds = ", number_to_toml(fault.seconds), "\n");
  if (!text.empty()) return text;
  if (fault.kind == FaultKind::kSlowWorker)
    text = absl::StrCat("factor = ", number_to_toml(fault.factor), "\n");
  if (fault.kind != FaultKind::kKillController || fault.moment) append_role(text, "", fault.role);
  if (fault.kind == FaultKind::kCutConnection) append_role(text, "other_", fault.other);
  return text;
}

std::string time_to_toml(const Fault& fault) {
  if (fault.kind == FaultKind::kPoisonSamples) return "";
  if (fault.after_step) return absl::StrCat("step = ", fault.after_step->value, "\n");
  if (!fault.moment) {
    return absl::StrCat("after_seconds = ", number_to_toml(fault.after_seconds.value()), "\n");
  }
  const FaultMoment& moment = *fault.moment;
  std::string text;
  if (moment.step) absl::StrAppend(&text, "step = ", moment.step->value, "\n");
  if (moment.recovery) absl::StrAppend(&text, "in_recovery = ", *moment.recovery, "\n");
  absl::StrAppend(&text, "point = \"", moment.point, "\"\n");
  if (moment.reached > 0) absl::StrAppend(&text, "reached = ", moment.reached, "\n");
  return text;
}

}  // namespace

absl::StatusOr<FaultScript> parse_fault_script(const std::string& text, const std::string& origin,
                                               const FaultLimits& limits) {
  CHECK(!limits.lanes.empty() && limits.nodes >= 1) << limits.lanes.size() << " " << limits.nodes;
  ASSIGN_OR_RETURN(const toml::table document, parse_document(text, origin));
  FaultScript script;
  for (const auto& [key, node] : document) {
    if (key.str() != "fault") {
      return InvalidInput(absl::StrCat(script_place(origin, key.source()), ": ",
                                       shown_script_key(std::string(key.str())),
                                       ": unknown key, allowed: fault"));
    }
    ASSIGN_OR_RETURN(script, read_faults(node, key, origin, limits));
  }
  return script;
}

absl::StatusOr<FaultScript> load_fault_script(Files& files, const std::string& path,
                                              const FaultLimits& limits) {
  const absl::StatusOr<std::string> text = read_file(files, path, kFaultScriptBytesMax);
  if (absl::IsNotFound(text.status())) {
    return InvalidInput(absl::StrCat(path, ": no such file, allowed: a TOML fault script"));
  }
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  return parse_fault_script(*text, path, limits);
}

std::string to_toml(const FaultScript& script) {
  std::string text;
  for (const Fault& fault : script.faults) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "[[fault]]\nkind = \"", to_string(fault.kind),
                    "\"\n", target_to_toml(fault), time_to_toml(fault));
  }
  return text;
}

}  // namespace evermoe
