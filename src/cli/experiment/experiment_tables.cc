#include "cli/experiment/experiment_tables.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/experiment/experiment_numbers.h"
#include "planner/report/amount_text.h"

namespace evermoe {
namespace {

std::string with_half_width(const nlohmann::json& summary, const std::string& name, bool is_error) {
  const double value = run_number(summary, name), half = run_number(summary, name + "_half_width");
  const std::string text = is_error ? points_text(value) : share_text(value);
  return std::isnan(half) ? text : absl::StrFormat("%s ± %.1f", text, 100 * half);
}

std::string seconds(double value) { return std::isnan(value) ? kUnknown : duration_text(value); }
std::string bytes(double value) { return std::isnan(value) ? kUnknown : bytes_text(value); }
std::string count(double value) { return std::isnan(value) ? kUnknown : count_text(value); }

}  // namespace

ReportTable summary_table(const nlohmann::json& report, const std::vector<std::string>& processes,
                          const std::vector<std::string>& systems) {
  ReportTable table{.title = "Measured and predicted",
                    .note = "Means over the seeds ± half of their 95 % confidence interval.",
                    .columns = {"Failures", "System", "ETTR", "Predicted", "Error, points", "Runs",
                                "Unfinished"}};
  for (const std::string& process : processes) {
    for (const std::string& system : systems) {
      for (const nlohmann::json& summary : report.at("summaries")) {
        if (summary.at("failure_process") != process || summary.at("system") != system) continue;
        table.rows.push_back({process, system, with_half_width(summary, "ettr", false),
                              with_half_width(summary, "predicted_ettr", false),
                              with_half_width(summary, "prediction_error", true),
                              absl::StrCat(summary.at("runs").get<int64_t>()),
                              absl::StrCat(summary.at("unfinished").get<int64_t>())});
      }
    }
  }
  return table;
}

ReportTable run_table(const nlohmann::json& report) {
  ReportTable table{
      .title = "All runs",
      .columns = {"System", "Failures drawn", "Seed", "Failures met", "ETTR", "Predicted",
                  "Seconds lost", "Steps again", "Tokens lost", "Digest"}};
  for (const nlohmann::json& run : report.at("runs")) {
    table.rows.push_back(
        {run.at("system"), run.at("failure_process"), run.at("seed").dump(),
         count(run_number(run, "failure_count")), share_text(run_number(run, "ettr")),
         share_text(run_number(run, "predicted_ettr")), seconds(run_number(run, "seconds_lost")),
         count(run_number(run, "recomputed_steps") + run_number(run, "undone_steps")),
         share_text(run_number(run, "lost_token_share")),
         run.at("digest").is_string() ? run["digest"].get<std::string>().substr(0, 8)
                                      : run.at("status").get<std::string>()});
  }
  return table;
}

ReportTable cost_table(const nlohmann::json& report) {
  ReportTable table{
      .title = "What protection took",
      .note = "Of the worker of rank 0; memory is the most that any worker had resident.",
      .columns = {"System", "Failures drawn", "Seed", "Tokens/s", "Steps waited", "Captured",
                  "Snapshots and logs kept", "Memory of a worker", "Final loss"}};
  for (const nlohmann::json& run : report.at("runs")) {
    const double loss = run_number(run, "final_loss");
    table.rows.push_back(
        {run.at("system"), run.at("failure_process"), run.at("seed").dump(),
         count(run_number(run, "goodput_tokens_per_s")), seconds(run_number(run, "stall_seconds")),
         bytes(run_number(run, "captured_bytes")), bytes(run_number(run, "kept_bytes_max")),
         bytes(run_number(run, "memory_peak_bytes")),
         std::isnan(loss) ? kUnknown : absl::StrFormat("%.4f", loss)});
  }
  return table;
}

ReportTable profile_table(const RuntimeProfile& profile) {
  ReportTable table{
      .title = "The profile that predictions are made from",
      .note = absl::StrCat("Measured by short runs with kills. A step without "
                           "protection takes ",
                           duration_text(profile.step_seconds), "."),
      .columns = {"Strategy", "Lost", "Step", "A durable save", "Detection", "New processes",
                  "State gathered", "A step again", "Settling", "Failures"}};
  for (const StrategyProfile& one : profile.strategies) {
    for (const LostKind lost : kLostKinds) {
      const LossProfile& loss = one.of(lost);
      if (loss.failures == 0) continue;
      table.rows.push_back({std::string(to_string(one.kind)), to_string(lost),
                            duration_text(one.step_seconds), duration_text(one.save_seconds),
                            duration_text(loss.detect_seconds), duration_text(loss.view_seconds),
                            duration_text(loss.load_seconds),
                            duration_text(loss.step_again_seconds),
                            duration_text(loss.settle_seconds), absl::StrCat(loss.failures)});
    }
  }
  return table;
}

}  // namespace evermoe
