// One forecast as a page: html_report.h.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/report/amount_text.h"
#include "planner/report/html_report.h"
#include "planner/report/report_blocks.h"
#include "planner/report/report_charts.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

constexpr int kTimelineRows = 6;

ReportTiles tiles_of(const RunForecast& forecast) {
  const RunEstimates& runs = forecast.estimates;
  return {
      {{"Time that stays done as training (ETTR)", percent_text(runs.ettr.mean),
        runs.ettr.count > 1 ? absl::StrFormat("95 %% interval %.2f to %.2f %%", 100 * runs.ettr.low,
                                              100 * runs.ettr.high)
                            : std::string("one recorded trace")},
       {"Tokens per second", count_text(forecast.tokens_per_second),
        absl::StrCat("1 T tokens take ", duration_text(1e12 / forecast.tokens_per_second))},
       {"Failures", absl::StrCat("one every ", duration_text(forecast.job_mtbf_seconds)),
        forecast.cluster.whole_job_mtbf_seconds() > 0
            ? absl::StrCat("of the whole job every ",
                           duration_text(forecast.cluster.whole_job_mtbf_seconds()))
            : std::string()},
       {"Downtime", absl::StrCat(duration_text(kDaySeconds * runs.downtime_share.mean), " a day"),
        absl::StrCat("in ", stops_text(runs), " a day")}}};
}

// Rows of a length that people think in, so that all of them together see about twelve failures.
ReportTimeline timeline_of(const RunForecast& forecast) {
  constexpr double kLengths[] = {600,
                                 3600,
                                 7200,
                                 6 * 3600,
                                 12 * 3600,
                                 kDaySeconds,
                                 2 * kDaySeconds,
                                 5 * kDaySeconds,
                                 10 * kDaySeconds,
                                 30 * kDaySeconds,
                                 90 * kDaySeconds,
                                 365 * kDaySeconds};
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
    const double seconds = cause.share(runs) * kDaySeconds / runs.interruptions_per_day.mean;
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
  if (strategy.migrates)
    table.rows.push_back(
        {"A move from an announced node",
         absl::StrCat(duration_text(recovery.migrate), ", while there are spares")});
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

}  // namespace

ReportPage report_page(const std::string& title, const RunForecast& forecast) {
  const RunEstimates& runs = forecast.estimates;
  ReportPage page{.title = title};
  page.summary = absl::StrCat("Of 30 days, ", duration_text(kMonthSeconds * runs.ettr.mean),
                              " are expected to stay done as training, protected by ",
                              forecast.priced.strategy.name, " (",
                              to_string(forecast.priced.strategy.replacement), "), and ",
                              duration_text(kMonthSeconds * (1 - runs.ettr.mean)), " to be lost.");
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

}  // namespace evermoe
