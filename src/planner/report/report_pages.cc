// What stands on the pages of html_report.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planner/report/amount_text.h"
#include "planner/report/html_report.h"
#include "planner/report/report_charts.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

constexpr double kDay = 86400, kMonth = 30 * kDay;
constexpr int kTimelineRows = 6;

std::string ettr_text(const Estimate& ettr) {
  return absl::StrFormat("%.2f ± %.2f %%", 100 * ettr.mean, 100 * ettr.half_width());
}

// --- One forecast ---

ReportTiles tiles_of(const RunForecast& forecast) {
  const RunEstimates& runs = forecast.estimates;
  return {{{"Time that stays done as training (ETTR)", percent_text(runs.ettr.mean),
            runs.ettr.count > 1 ? absl::StrFormat("95 %% interval %.2f to %.2f %%",
                                                  100 * runs.ettr.low, 100 * runs.ettr.high)
                                : std::string("one recorded trace")},
           {"Tokens per second", count_text(forecast.tokens_per_second),
            absl::StrCat("1 T tokens take ", duration_text(1e12 / forecast.tokens_per_second))},
           {"Failures", absl::StrCat("one every ", duration_text(forecast.job_mtbf_seconds)),
            forecast.cluster.whole_job_mtbf_seconds() > 0
                ? absl::StrCat("of the whole job every ",
                               duration_text(forecast.cluster.whole_job_mtbf_seconds()))
                : std::string()},
           {"Downtime", absl::StrCat(duration_text(kDay * runs.downtime_share.mean), " a day"),
            absl::StrFormat("in %.2g interruptions a day", runs.interruptions_per_day.mean)}}};
}

ReportStrip share_strip(const RunEstimates& runs) {
  ReportStrip strip{.title = "Where the time goes",
                    .caption = "All wall time of the job, by what it is spent on."};
  for (const TimeCause& cause : time_causes())
    strip.parts.push_back(
        {cause.name, cause.colour, percent_text(cause.share(runs)), cause.share(runs)});
  return strip;
}

ReportTable share_table(const RunEstimates& runs) {
  ReportTable table{.columns = {"Cause", "Share of wall time", "In 30 days", "What it is"}};
  for (const TimeCause& cause : time_causes()) {
    const double share = cause.share(runs);
    table.rows.push_back({cause.name, percent_text(share, 3),
                          share > 0 ? duration_text(kMonth * share) : "0", cause.meaning});
    table.colours.push_back(cause.colour);
  }
  return table;
}

// Rows of a length that people think in, so that all of them together see about twelve failures.
ReportTimeline timeline_of(const RunForecast& forecast) {
  constexpr double kLengths[] = {600,      3600,     7200,      6 * 3600,  12 * 3600, kDay,
                                 2 * kDay, 5 * kDay, 10 * kDay, 30 * kDay, 90 * kDay, 365 * kDay};
  const double wanted = 2 * forecast.job_mtbf_seconds;
  const double* length = std::find_if(std::begin(kLengths), std::end(kLengths) - 1,
                                      [&](double seconds) { return seconds >= wanted; });
  const int rows = static_cast<int>(
      std::clamp(std::ceil(forecast.simulated_seconds / *length), 1.0, double{kTimelineRows}));
  ReportTimeline timeline{.title = "One run, as it may go",
                          .spans = forecast.first_run,
                          .row_seconds = *length,
                          .rows = rows};
  timeline.caption = absl::StrFormat(
      "The first %s of one of the simulated runs; every row is %s. What is shorter than a mark is "
      "drawn as wide as one.",
      duration_text(rows * *length), duration_text(*length));
  return timeline;
}

// Seconds by cause that an interruption costs on average.
ReportStrip interruption_strip(const RunEstimates& runs) {
  ReportStrip strip{.title = "What one interruption costs on average"};
  double total = 0;
  for (const TimeCause& cause : time_causes()) {
    if (cause.span == RunSpan::Kind::kTraining) continue;
    const double seconds = cause.share(runs) * kDay / runs.interruptions_per_day.mean;
    strip.parts.push_back({cause.name, cause.colour, duration_text(seconds), seconds});
    total += seconds;
  }
  strip.caption = absl::StrCat(duration_text(total), " together.");
  return strip;
}

ReportTable assumptions_of(const RunForecast& forecast) {
  const RunStrategy& strategy = forecast.priced.strategy;
  const ClusterSpec& cluster = forecast.cluster;
  const RecoverySeconds& recovery = strategy.recovery;
  ReportTable table{
      .title = "What was assumed", .columns = {"What", "Value"}, .has_numbers = false};
  table.rows = {
      {"Job", absl::StrCat(forecast.model, " on ", cluster.nodes, " nodes of ",
                           cluster.gpus_per_node, " ", cluster.gpu.name, ", ", cluster.spares,
                           cluster.spares == 1 ? " spare" : " spares")},
      {"Layout", layout_text(forecast.layout)},
      {"Batch", batch_text(forecast.layout, forecast.step.profile.tokens_per_step, forecast.batch)},
      {"Step without failures", absl::StrCat(duration_text(forecast.step.profile.step_seconds),
                                             ", ", forecast.step.profile.origin)},
      {"Memory",
       absl::StrCat(bytes_text(forecast.step.profile.gpu_bytes()), " of each GPU, ",
                    bytes_text(forecast.priced.host_bytes_per_gpu), " of the host for each GPU")},
      {"Protection", absl::StrCat(strategy.name, ", ", to_string(strategy.replacement))}};
  if (strategy.protection == StateProtection::kSparse)
    table.rows.push_back({"Window", absl::StrCat(strategy.sparse.window, " steps")});
  if (strategy.save.every_steps > 0)
    table.rows.push_back({"Saves", absl::StrCat("every ", strategy.save.every_steps, " steps")});
  if (strategy.copies > 0)
    table.rows.push_back({"Copies", absl::StrCat(strategy.copies, " at peers")});
  if (strategy.fallback.every_steps > 0)
    table.rows.push_back(
        {"Durable saves below", absl::StrCat("every ", strategy.fallback.every_steps, " steps")});
  table.rows.push_back({"Failures", failures_text(cluster)});
  table.rows.push_back(
      {"A recovery",
       absl::StrFormat("%s to notice, %s with a warm standby or %s without, %s to load",
                       duration_text(recovery.detect), duration_text(recovery.standby),
                       duration_text(recovery.restart), duration_text(recovery.load_memory))});
  table.rows.push_back(
      {"Simulated",
       absl::StrFormat("%d runs of %s, %d interruptions, %d times all copies lost",
                       forecast.estimates.ettr.count, duration_text(forecast.simulated_seconds),
                       forecast.estimates.interruptions, forecast.estimates.fallbacks)});
  return table;
}

ReportNotes notes_of(const RunForecast& forecast) {
  ReportNotes notes{.title = "How to read it", .sentences = forecast.priced.reasons};
  if (!forecast.priced.fallback_reason.empty())
    notes.sentences.push_back(
        absl::StrCat("Durable saves: ", forecast.priced.fallback_reason, "."));
  if (!forecast.missing.empty())
    notes.sentences.push_back(
        absl::StrCat("A forecast only: the runtime has no ", forecast.missing, "."));
  notes.sentences.push_back(
      "Step times are modelled from shapes and data sheets (docs/planning.md says how far to trust "
      "them); failures are drawn at random, "
      "and the 95 % interval is that of the mean over the simulated runs.");
  return notes;
}

// --- Sweeps ---

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
            duration_text(kDay * run.estimates.downtime_share.mean),
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

// --- Scales ---

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

ReportPage report_page(const std::string& title, const RunForecast& forecast) {
  const RunEstimates& runs = forecast.estimates;
  ReportPage page{.title = title};
  page.summary = absl::StrCat("Of 30 days, ", duration_text(kMonth * runs.ettr.mean),
                              " are expected to stay done as training, protected by ",
                              forecast.priced.strategy.name, " (",
                              to_string(forecast.priced.strategy.replacement), "), and ",
                              duration_text(kMonth * (1 - runs.ettr.mean)), " to be lost.");
  page.blocks = {tiles_of(forecast), share_strip(runs), share_table(runs)};
  page.blocks.push_back(losses_chart("What is lost, by cause",
                                     "The same without training, so that small shares can be seen.",
                                     runs));
  page.blocks.push_back(timeline_of(forecast));
  if (runs.interruptions > 0) page.blocks.push_back(interruption_strip(runs));
  page.blocks.push_back(assumptions_of(forecast));
  page.blocks.push_back(notes_of(forecast));
  return page;
}

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

namespace {

ReportTable candidates_table(const ProtectionPlan& plan,
                             const std::vector<const PlanCandidate*>& candidates) {
  ReportTable table{.title = "All candidates",
                    .note =
                        "Sorted by the share of all nodes' time, idle spares included, that stays "
                        "done as training.",
                    .columns = {"Plan", "Share of all nodes' time", "ETTR", "Spares",
                                "Downtime a day", "Lost work", "Runs today"}};
  for (const PlanCandidate* candidate : candidates) {
    const RunEstimates& runs = candidate->estimates;
    table.rows.push_back(
        {candidate->priced.strategy.name, percent_text(candidate->score), ettr_text(runs.ettr),
         absl::StrCat(candidate->spares), duration_text(kDay * runs.downtime_share.mean),
         percent_text(runs.rework_share.mean),
         candidate->runs_today() ? "yes" : absl::StrCat("no: ", candidate->missing)});
  }
  for (const ProtectionRefused& refused : plan.refused)
    table.rows.push_back(
        {refused.name, "-", "-", "-", "-", "-", absl::StrCat("not possible: ", refused.reason)});
  return table;
}

}  // namespace

ReportPage report_page(const ProtectionPlan& plan) {
  constexpr size_t kCompared = 10;
  const RunEstimates& runs = plan.best.estimates;
  ReportPage page{.title =
                      absl::StrCat("Plan: ", plan.model, " on ", plan.cluster.nodes, " nodes of ",
                                   plan.cluster.gpus_per_node, " ", plan.cluster.gpu.name)};
  page.summary = absl::StrCat("Best: ", plan.best.priced.strategy.name, ". Of 30 days, ",
                              duration_text(kMonth * runs.ettr.mean),
                              " are expected to stay done as training.");
  page.blocks.push_back(
      ReportTiles{{{"Time that stays done as training (ETTR)", percent_text(runs.ettr.mean),
                    plan.best.priced.strategy.name},
                   {"Tokens per second", count_text(plan.tokens_per_second),
                    absl::StrCat(duration_text(plan.step.profile.step_seconds), " a step")},
                   {"Spares", absl::StrCat(plan.best.spares, " nodes"),
                    absl::StrCat("enough ", percent_text(plan.spares_suffice), " of the time")},
                   {"Failures", absl::StrCat("one every ", duration_text(plan.job_mtbf_seconds)),
                    failures_text(plan.cluster)}}});
  page.blocks.push_back(share_strip(runs));
  page.blocks.push_back(share_table(runs));
  std::vector<const PlanCandidate*> candidates{&plan.best};
  for (const PlanCandidate& other : plan.others) candidates.push_back(&other);
  std::vector<std::string> labels;
  std::vector<const RunEstimates*> points;
  for (const PlanCandidate* candidate : candidates) {
    if (labels.size() == kCompared) break;
    labels.push_back(candidate->priced.strategy.name);
    points.push_back(&candidate->estimates);
  }
  page.blocks.push_back(
      losses_chart("What is lost under the best plans, by cause",
                   "All wall time that is not training that stays done. Idle spares are not in it.",
                   "plan", labels, points));
  page.blocks.push_back(ReportNotes{"Why", plan.reasons});
  page.blocks.push_back(candidates_table(plan, candidates));
  return page;
}

}  // namespace evermoe
