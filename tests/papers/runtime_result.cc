#include "papers/runtime_result.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Of an experiment's report.json (docs/experiments.md).
constexpr int kReportVersion = 3;

using Json = nlohmann::json;

constexpr int64_t kResultVersion = 1;
constexpr size_t kFoundMax = 60;

// Reads the members of one object and remembers the first problem, so that a reader reads straight
// on.
class Members {
 public:
  Members(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) problem("", object, "an object");
  }

  std::string text(const char* name) {
    const Json& value = find(name);
    if (value.is_string()) return value.get<std::string>();
    problem(name, value, "a text");
    return "";
  }
  double number(const char* name) {
    const Json& value = find(name);
    if (value.is_number() && value.get<double>() >= 0) return value.get<double>();
    problem(name, value, "a number of at least 0");
    return 0;
  }
  // Nothing for null.
  std::optional<double> number_or_null(const char* name) {
    if (find(name).is_null()) return std::nullopt;
    return number(name);
  }
  int64_t count(const char* name) {
    const Json& value = find(name);
    if (value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX)
      return value.get<int64_t>();
    problem(name, value, "an integer of at least 0");
    return 0;
  }
  bool truth(const char* name) {
    const Json& value = find(name);
    if (value.is_boolean()) return value.get<bool>();
    problem(name, value, "true or false");
    return false;
  }
  const Json& list(const char* name) {
    static const Json& empty = *new Json(Json::array());
    const Json& value = find(name);
    if (value.is_array()) return value;
    problem(name, value, "a list");
    return empty;
  }
  void require(const char* name, bool is_allowed, const std::string& allowed) {
    if (!is_allowed) problem(name, find(name), allowed);
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& find(const char* name) const {
    static const Json& null = *new Json();
    if (!object_.is_object()) return null;
    const auto at = object_.find(name);
    return at == object_.end() ? null : *at;
  }
  void problem(const std::string& name, const Json& found, const std::string& allowed) {
    if (!status_.ok()) return;
    const std::string shown =
        found.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kFoundMax);
    const std::string where = name.empty() ? place_ : absl::StrCat(place_, ": ", name);
    status_ = InvalidInput(absl::StrCat(where, ": found ", shown, ", allowed: ", allowed));
  }

  const Json& object_;
  const std::string place_;
  absl::Status status_;
};

absl::StatusOr<Json> parse_object(const std::string& text, const std::string& origin) {
  if (text.size() > kRuntimeResultBytesMax) {
    return InvalidInput(absl::StrCat(origin, ": found ", text.size(), " bytes, allowed: at most ",
                                     kRuntimeResultBytesMax));
  }
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded())
    return InvalidInput(absl::StrCat(origin, ": found no JSON, allowed: one JSON object"));
  return value;
}

std::string entry_place(const std::string& origin, const char* list, size_t index) {
  return absl::StrCat(origin, ": ", list, "[", index, "]");
}

// `read` makes one result of the members of each entry.
template <typename Result, typename Read>
absl::Status read_entries(Members& top, const std::string& origin, std::vector<Result>& results,
                          const Read& read) {
  for (const Json& entry : top.list("results")) {
    Members of(entry, entry_place(origin, "results", results.size()));
    results.push_back(read(of));
    RETURN_IF_ERROR(of.status());
  }
  return absl::OkStatus();
}

absl::Status read_experiments(Members& top, const std::string& origin, RuntimeResult& result) {
  return read_entries(top, origin, result.experiments, [](Members& of) {
    return ExperimentResult{.system = of.text("system"),
                            .failure_process = of.text("failure_process"),
                            .runs = of.count("runs"),
                            .unfinished = of.count("unfinished"),
                            .failures = of.count("failures"),
                            .ettr = of.number_or_null("ettr"),
                            .ettr_half_width = of.number_or_null("ettr_half_width"),
                            .predicted_ettr = of.number_or_null("predicted_ettr"),
                            .step_seconds = of.number("step_seconds"),
                            .lost_token_share = of.number("lost_token_share"),
                            .is_exact = of.truth("is_exact"),
                            .digests = of.count("digests")};
  });
}

absl::Status read_partial_checkpoints(Members& top, const std::string& origin,
                                      RuntimeResult& result) {
  result.config = top.text("config");
  for (const Json& setting : top.list("settings")) {
    top.require("settings", setting.is_string(), "texts");
    if (setting.is_string()) result.settings.push_back(setting.get<std::string>());
  }
  return read_entries(top, origin, result.partial_checkpoints, [](Members& of) {
    return PartialCheckpointResult{.experts_saved = of.count("experts_saved"),
                                   .bytes = of.count("bytes")};
  });
}

absl::Status read_accuracies(Members& top, const std::string& origin, RuntimeResult& result) {
  result.config = top.text("config");
  result.steps = top.count("steps");
  result.save_every_steps = top.count("save_every_steps");
  return read_entries(top, origin, result.accuracies, [](Members& of) {
    return AccuracyResult{.name = of.text("name"),
                          .strategy = of.text("strategy"),
                          .is_exact = of.truth("is_exact"),
                          .kills = of.count("kills"),
                          .digest = of.text("digest"),
                          .lost_token_share = of.number("lost_token_share"),
                          .validation_loss = of.number("validation_loss"),
                          .validation_accuracy = of.number("validation_accuracy")};
  });
}

using ReadResults = absl::Status (*)(Members&, const std::string& origin, RuntimeResult&);

// Null: there is no such kind.
ReadResults reader_of(const std::string& kind) {
  if (kind == "experiment") return read_experiments;
  if (kind == "partial-checkpoints") return read_partial_checkpoints;
  return kind == "accuracy" ? read_accuracies : nullptr;
}

// The runs of one system and failure process.
struct RunGroup {
  ExperimentResult sums;
  std::set<std::string> digests;
  int64_t predicted = 0;
  double predicted_ettr = 0, step_seconds = 0, lost_token_share = 0;
};

void add_run(Members& run, bool is_finished, RunGroup& group) {
  group.sums.unfinished += !is_finished;
  if (!is_finished) return;
  ++group.sums.runs;
  group.sums.failures += run.count("failure_count");
  group.sums.is_exact = run.truth("is_exact");
  group.step_seconds += run.number("step_seconds");
  group.lost_token_share += run.number("lost_token_share");
  group.digests.insert(run.text("digest"));
  const std::optional<double> predicted = run.number_or_null("predicted_ettr");
  if (!predicted) return;
  ++group.predicted;
  group.predicted_ettr += *predicted;
}

ExperimentResult result_of(const RunGroup& group) {
  ExperimentResult result = group.sums;
  result.digests = std::ssize(group.digests);
  if (result.runs == 0) return result;
  const double runs = static_cast<double>(result.runs);
  result.step_seconds = group.step_seconds / runs;
  result.lost_token_share = group.lost_token_share / runs;
  if (group.predicted > 0)
    result.predicted_ettr = group.predicted_ettr / static_cast<double>(group.predicted);
  return result;
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

absl::StatusOr<RuntimeResult> parse_runtime_result(const std::string& text,
                                                   const std::string& origin) {
  ASSIGN_OR_RETURN(const Json json, parse_object(text, origin));
  Members top(json, origin);
  top.require("version", top.count("version") == kResultVersion, absl::StrCat(kResultVersion));
  RuntimeResult result{.machine = top.text("machine"), .command = top.text("command")};
  const ReadResults read = reader_of(top.text("kind"));
  top.require("kind", read != nullptr, "experiment, partial-checkpoints, accuracy");
  top.require("results", !top.list("results").empty(), "at least one");
  RETURN_IF_ERROR(top.status());
  RETURN_IF_ERROR(read(top, origin, result));
  RETURN_IF_ERROR(top.status());
  return result;
}

std::string to_json(const RuntimeResult& result) {
  CHECK(!result.experiments.empty());
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const ExperimentResult& of : result.experiments) {
    entries.push_back({{"system", of.system},
                       {"failure_process", of.failure_process},
                       {"runs", of.runs},
                       {"unfinished", of.unfinished},
                       {"failures", of.failures},
                       {"ettr", or_null(of.ettr)},
                       {"ettr_half_width", or_null(of.ettr_half_width)},
                       {"predicted_ettr", or_null(of.predicted_ettr)},
                       {"step_seconds", of.step_seconds},
                       {"lost_token_share", of.lost_token_share},
                       {"is_exact", of.is_exact},
                       {"digests", of.digests}});
  }
  const nlohmann::ordered_json json = {{"version", kResultVersion},
                                       {"kind", "experiment"},
                                       {"machine", result.machine},
                                       {"command", result.command},
                                       {"results", entries}};
  return json.dump(2) + "\n";
}

absl::StatusOr<RuntimeResult> result_of_report(const std::string& text, const std::string& origin) {
  ASSIGN_OR_RETURN(const Json json, parse_object(text, origin));
  Members top(json, origin);
  top.require("version", top.count("version") == kReportVersion, absl::StrCat(kReportVersion));
  std::map<std::pair<std::string, std::string>, RunGroup> groups;
  size_t index = 0;
  for (const Json& entry : top.list("runs")) {
    Members run(entry, entry_place(origin, "runs", index++));
    RunGroup& group = groups[{run.text("failure_process"), run.text("system")}];
    add_run(run, run.number_or_null("ettr").has_value(), group);
    RETURN_IF_ERROR(run.status());
  }
  RuntimeResult result;
  index = 0;
  for (const Json& entry : top.list("summaries")) {
    Members summary(entry, entry_place(origin, "summaries", index++));
    const auto group = groups.find({summary.text("failure_process"), summary.text("system")});
    summary.require("system", group != groups.end(), "one of the runs");
    RETURN_IF_ERROR(summary.status());
    ExperimentResult of = result_of(group->second);
    of.failure_process = group->first.first;
    of.system = group->first.second;
    of.ettr = summary.number_or_null("ettr");
    of.ettr_half_width = summary.number_or_null("ettr_half_width");
    RETURN_IF_ERROR(summary.status());
    result.experiments.push_back(std::move(of));
  }
  top.require("summaries", !result.experiments.empty(), "at least one");
  RETURN_IF_ERROR(top.status());
  return result;
}

}  // namespace evermoe
