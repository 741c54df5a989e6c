// A sweep as a page: html_report.h.
#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/report/amount_text.h"
#include "planner/report/html_report.h"
#include "planner/report/report_blocks.h"
#include "planner/report/report_charts.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

bool is_ascending(const SweepAxis& axis) {
  double before = -std::numeric_limits<double>::infinity();
  for (const std::string& text : axis.values) {
    double value = 0;
    if (!absl::SimpleAtod(text, &value) || value <= before) return false;
    before = value;
  }
  return axis.values.size() > 1;
}

std::string rest_of(const Sweep& sweep, const SweepPoint& point) {
  std::vector<std::string> parts;
  for (size_t a = 1; a < sweep.axes.size(); ++a)
    parts.push_back(absl::StrCat(sweep.axes[a].key, " = ", point.values[a]));
  return parts.empty() ? "ETTR" : absl::StrJoin(parts, ", ");
}

// One line for each combination of the other axes, in order of appearance.
std::vector<EstimateLine> lines_of(const Sweep& sweep) {
  std::vector<EstimateLine> lines;
  for (const SweepPoint& point : sweep.points) {
    const std::string label = rest_of(sweep, point);
    auto known = std::find_if(lines.begin(), lines.end(),
                              [&](const EstimateLine& other) { return other.label == label; });
    if (known == lines.end()) known = lines.insert(lines.end(), EstimateLine{label, {}});
    known->shares.push_back(point.forecast ? &point.forecast->estimates.ettr : nullptr);
  }
  return lines;
}

ReportTable sweep_table(const Sweep& sweep) {
  ReportTable table{.title = "All points"};
  for (const SweepAxis& axis : sweep.axes) table.columns.push_back(axis.key);
  for (const char* column : {"ETTR", "Tokens/s", "One failure every", "Step", "Downtime a day",
                             "Lost work", "Protection"})
    table.columns.push_back(column);
  for (const SweepPoint& point : sweep.points) {
    std::vector<std::string> row = point.values;
    if (point.forecast) {
      const RunForecast& run = *point.forecast;
      for (const std::string& cell :
           {ettr_text(run.estimates.ettr), count_text(run.tokens_per_second),
            duration_text(run.job_mtbf_seconds), duration_text(run.step.profile.step_seconds),
            duration_text(kDaySeconds * run.estimates.downtime_share.mean),
            percent_text(run.estimates.rework_share.mean), run.priced.strategy.name}) {
        row.push_back(cell);
      }
    } else {
      row.resize(table.columns.size() - 1, "-");
      row.push_back(absl::StrCat("does not fit: ", point.refused));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Where more nodes have a higher ETTR than fewer, which nobody expects: why.
std::vector<std::string> explain_rises(const Sweep& sweep) {
  std::vector<std::string> sentences;
  if (sweep.axes.empty() || sweep.axes.front().key != "cluster.nodes") return sentences;
  for (size_t i = 0; i < sweep.points.size(); ++i) {
    for (size_t j = i + 1; j < sweep.points.size(); ++j) {
      const auto &fewer = sweep.points[i].forecast, &more = sweep.points[j].forecast;
      if (rest_of(sweep, sweep.points[i]) != rest_of(sweep, sweep.points[j])) continue;
      if (fewer && more && more->estimates.ettr.low > fewer->estimates.ettr.high &&
          more->cluster.nodes > fewer->cluster.nodes) {
        const std::string fall = largest_fall(fewer->estimates, more->estimates);
        sentences.push_back(absl::StrCat(
            "With ", more->cluster.nodes, " nodes the ETTR is higher than with ",
            fewer->cluster.nodes, ": the most is saved on ", fall, ". A step takes ",
            duration_text(more->step.profile.step_seconds), " instead of ",
            duration_text(fewer->step.profile.step_seconds), ", on ", layout_text(more->layout),
            " instead of ", layout_text(fewer->layout), "."));
      }
      break;  // only neighbours
    }
  }
  return sentences;
}

std::string best_text(const Sweep& sweep) {
  const SweepPoint* best = nullptr;
  const SweepPoint* worst = nullptr;
  for (const SweepPoint& point : sweep.points) {
    if (!point.forecast) continue;
    const double ettr = point.forecast->estimates.ettr.mean;
    if (best == nullptr || ettr > best->forecast->estimates.ettr.mean) best = &point;
    if (worst == nullptr || ettr < worst->forecast->estimates.ettr.mean) worst = &point;
  }
  if (best == nullptr) return "No point fits the cluster.";
  const auto where = [&](const SweepPoint& point) {
    std::vector<std::string> parts;
    for (size_t a = 0; a < sweep.axes.size(); ++a)
      parts.push_back(absl::StrCat(sweep.axes[a].key, " = ", point.values[a]));
    return absl::StrJoin(parts, ", ");
  };
  return absl::StrCat("The share of wall time that stays done as training (ETTR) is between ",
                      percent_text(worst->forecast->estimates.ettr.mean), " (", where(*worst),
                      ") and ", percent_text(best->forecast->estimates.ettr.mean), " (",
                      where(*best), ").");
}

}  // namespace

ReportPage report_page(const std::string& title, const Sweep& sweep) {
  if (sweep.axes.empty() && sweep.points.size() == 1 && sweep.points.front().forecast)
    return report_page(title, *sweep.points.front().forecast);
  ReportPage page{.title = title, .summary = best_text(sweep)};
  std::vector<std::string> keys, labels;
  std::vector<const RunEstimates*> points;
  for (const SweepAxis& axis : sweep.axes) keys.push_back(axis_text(axis.key));
  for (const SweepPoint& point : sweep.points) {
    labels.push_back(absl::StrJoin(point.values, ", "));
    points.push_back(point.forecast ? &point.forecast->estimates : nullptr);
  }
  if (!sweep.axes.empty()) {
    const SweepAxis& x = sweep.axes.front();
    const bool has_bars = !is_ascending(x);
    page.blocks.push_back(
        share_chart("ETTR",
                    has_bars ? "Share of wall time that stays done as training."
                             : "Share of wall time that stays done as training. Broken lines: 95 % "
                               "interval of the mean over the simulated runs.",
                    axis_text(x.key), x.values, lines_of(sweep), has_bars));
  }
  page.blocks.push_back(losses_chart("What is lost, by cause",
                                     "All wall time that is not training that stays done.",
                                     absl::StrJoin(keys, ", "), labels, points));
  if (const std::vector<std::string> why = explain_rises(sweep); !why.empty())
    page.blocks.push_back(ReportNotes{"Why the ETTR rises with the size", why});
  page.blocks.push_back(sweep_table(sweep));
  return page;
}

}  // namespace evermoe
