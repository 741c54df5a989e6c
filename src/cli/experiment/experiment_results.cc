#include "cli/experiment/experiment_results.h"

#include <cmath>
#include <map>
#include <numeric>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond that the normal law's.
constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                               2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                               2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
constexpr double kNormal = 1.960;

constexpr const char* kColumns[] = {"system",
                                    "strategy",
                                    "failure_process",
                                    "seed",
                                    "status",
                                    "ettr",
                                    "predicted_ettr",
                                    "prediction_error",
                                    "lost_token_share",
                                    "is_exact",
                                    "digest",
                                    "steps",
                                    "seconds",
                                    "step_seconds",
                                    "goodput_tokens_per_s",
                                    "failure_count",
                                    "seconds_lost",
                                    "recomputed_steps",
                                    "undone_steps",
                                    "stall_seconds",
                                    "captured_bytes",
                                    "kept_bytes_max",
                                    "memory_peak_bytes",
                                    "final_loss"};

// `name` and `name`_half_width, null where there are too few values.
void add_spread(const std::string& name, const std::vector<double>& values, nlohmann::json& entry) {
  entry[name] = entry[name + "_half_width"] = nullptr;
  if (values.empty()) return;
  const Spread spread = spread_of(values);
  entry[name] = spread.mean;
  if (spread.half_width) entry[name + "_half_width"] = *spread.half_width;
}

struct Group {
  std::string strategy;
  std::vector<double> ettr, predicted, errors;
  int unfinished = 0;
};

}  // namespace

absl::StatusOr<Yardstick> yardstick_of(double run_seconds, int64_t steps,
                                       const std::string& metrics) {
  std::istringstream lines(metrics);
  double sum = 0;
  int64_t counted = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    // The first step's time holds the start.
    if (!entry.is_object() || !entry.contains("loss") || !entry.contains("seconds")) continue;
    if (entry.value("step", 0) <= 1 || !entry["seconds"].is_number()) continue;
    sum += entry["seconds"].get<double>();
    ++counted;
  }
  if (counted == 0 || sum <= 0)
    return absl::FailedPreconditionError("the undisturbed run has no steps to measure");
  const double step = sum / static_cast<double>(counted);
  return Yardstick{step, std::max(0.0, run_seconds - step * static_cast<double>(steps))};
}

Yardstick mean_of(const Yardstick& before, const Yardstick& after) {
  return {(before.step_seconds + after.step_seconds) / 2,
          (before.beside_seconds + after.beside_seconds) / 2};
}

std::optional<double> ettr_of(double run_seconds, int64_t steps, const Yardstick& yardstick) {
  const double real = run_seconds - yardstick.beside_seconds;
  if (real <= 0) return std::nullopt;
  return static_cast<double>(steps) * yardstick.step_seconds / real;
}

Spread spread_of(const std::vector<double>& values) {
  CHECK(!values.empty());
  const double n = static_cast<double>(values.size());
  Spread spread{std::accumulate(values.begin(), values.end(), 0.0) / n, std::nullopt};
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  const size_t freedom = values.size() - 1;
  const double quantile = freedom <= std::size(kStudent) ? kStudent[freedom - 1] : kNormal;
  spread.half_width = quantile * std::sqrt(squares / (n - 1) / n);
  return spread;
}

nlohmann::json report_of(const std::vector<nlohmann::json>& runs) {
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const nlohmann::json& run : runs) {
    Group& group = groups[{run.at("failure_process"), run.at("system")}];
    group.strategy = run.at("strategy");
    // Both means are of the same runs: of those that finished.
    if (run.at("predicted_ettr").is_number() && run.at("ettr").is_number())
      group.predicted.push_back(run["predicted_ettr"]);
    if (run.at("prediction_error").is_number()) group.errors.push_back(run["prediction_error"]);
    if (run.at("ettr").is_number())
      group.ettr.push_back(run["ettr"]);
    else
      ++group.unfinished;
  }
  nlohmann::json summaries = nlohmann::json::array();
  for (const auto& [key, group] : groups) {
    nlohmann::json entry = {{"failure_process", key.first},
                            {"system", key.second},
                            {"strategy", group.strategy},
                            {"runs", group.ettr.size()},
                            {"unfinished", group.unfinished}};
    add_spread("ettr", group.ettr, entry);
    add_spread("predicted_ettr", group.predicted, entry);
    add_spread("prediction_error", group.errors, entry);
    summaries.push_back(std::move(entry));
  }
  return {{"version", 3}, {"runs", runs}, {"summaries", std::move(summaries)}};
}

std::string csv_of(const std::vector<nlohmann::json>& runs) {
  std::string table = absl::StrCat(absl::StrJoin(kColumns, ","), "\n");
  for (const nlohmann::json& run : runs) {
    std::vector<std::string> cells;
    for (const char* column : kColumns) {
      const nlohmann::json& value = run.at(column);
      cells.push_back(value.is_null()     ? ""
                      : value.is_string() ? value.get<std::string>()
                                          : value.dump());
    }
    absl::StrAppend(&table, absl::StrJoin(cells, ","), "\n");
  }
  return table;
}

}  // namespace evermoe
