// The best plan at every size as a page: html_report.h.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "planner/report/amount_text.h"
#include "planner/report/html_report.h"
#include "planner/report/report_blocks.h"
#include "planner/report/report_charts.h"

namespace evermoe {
namespace {

template <typename Value>
std::vector<double> values_of(std::span<const ScaleRow> rows, Value value) {
  std::vector<double> values;
  for (const ScaleRow& row : rows)
    values.push_back(row.refused.empty() ? value(row) : std::nan(""));
  return values;
}

ReportTable scale_table(std::span<const ScaleRow> rows) {
  ReportTable table{.title = "The best plan at every size",
                    .columns = {"GPUs", "One failure every", "Batch (tokens)", "Step", "ETTR",
                                "Spares", "Downtime a day", "An interruption", "Plan"}};
  for (const ScaleRow& row : rows) {
    if (!row.refused.empty()) {
      std::vector<std::string> cells{absl::StrCat(row.gpus), duration_text(row.job_mtbf_seconds)};
      cells.resize(table.columns.size() - 1, "-");
      cells.push_back(absl::StrCat("does not fit: ", row.refused));
      table.rows.push_back(std::move(cells));
      continue;
    }
    table.rows.push_back({absl::StrCat(row.gpus), duration_text(row.job_mtbf_seconds),
                          count_text(row.tokens_per_step), duration_text(row.step_seconds),
                          ettr_text(row.ettr), absl::StrCat(row.spares),
                          duration_text(row.downtime_seconds_per_day),
                          duration_text(row.downtime_per_interruption_seconds), row.strategy});
  }
  return table;
}

}  // namespace

ReportPage report_page(const std::string& title, std::span<const ScaleRow> rows) {
  ReportPage page{.title = title,
                  .summary = absl::StrCat("The best plan at every size. ", kBatchGrows,
                                          " Nodes fail as often at every size.")};
  std::vector<std::string> labels;
  EstimateLine ettr{"ETTR", {}};
  std::vector<const RunEstimates*> points;
  for (const ScaleRow& row : rows) {
    labels.push_back(absl::StrCat(row.gpus));
    ettr.shares.push_back(row.refused.empty() ? &row.ettr : nullptr);
    points.push_back(row.refused.empty() ? &row.estimates : nullptr);
  }
  page.blocks.push_back(share_chart("ETTR",
                                    "Share of wall time that stays done as training, under the "
                                    "best plan at each size. Broken lines: 95 % interval.",
                                    "GPUs", labels, {ettr}, false));
  if (std::vector<std::string> why = explain_rises(rows); !why.empty())
    page.blocks.push_back(ReportNotes{"Why the ETTR rises where it does", std::move(why)});
  page.blocks.push_back(losses_chart("What is lost, by cause",
                                     "All wall time that is not training that stays done.", "GPUs",
                                     labels, points));
  page.blocks.push_back(value_chart(
      "Downtime", "Recovering and waiting, on a logarithmic scale.", "GPUs", "minutes a day",
      labels,
      values_of(rows, [](const ScaleRow& row) { return row.downtime_seconds_per_day / 60; }),
      true));
  page.blocks.push_back(
      value_chart("Spare nodes", "Of the best plan.", "GPUs", "nodes", labels,
                  values_of(rows, [](const ScaleRow& row) { return double(row.spares); }), false));
  page.blocks.push_back(scale_table(rows));
  return page;
}

}  // namespace evermoe
