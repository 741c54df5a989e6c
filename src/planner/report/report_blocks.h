// What several pages of html_report.h have in common.
#pragma once

#include <string>

#include "planner/report/html_report.h"
#include "planner/simulate/estimate.h"

namespace evermoe {

inline constexpr double kDaySeconds = 86400, kMonthSeconds = 30 * kDaySeconds;

std::string ettr_text(const Estimate& ettr);  // "97.31 ± 0.21 %"

// Where the wall time goes, by cause: as one bar, and as a table with a row for each.
ReportStrip share_strip(const RunEstimates& runs);
ReportTable share_table(const RunEstimates& runs);

}  // namespace evermoe
