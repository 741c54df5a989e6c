#include "planner/report/report_blocks.h"

#include "absl/strings/str_format.h"
#include "planner/report/amount_text.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {

std::string ettr_text(const Estimate& ettr) {
  return absl::StrFormat("%.2f ± %.2f %%", 100 * ettr.mean, 100 * ettr.half_width());
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
                          share > 0 ? duration_text(kMonthSeconds * share) : "0", cause.meaning});
    table.colours.push_back(cause.colour);
  }
  return table;
}

}  // namespace evermoe
