// The plots of html_report.h, as Chart.js wants them. Every axis has a title with its unit.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/report/html_report.h"

namespace evermoe {

// A line of means with the ends of their 95 % intervals; null pointers are gaps.
struct EstimateLine {
  std::string label;
  std::vector<const Estimate*> shares;
};

// Shares in percent of wall time over `labels`; bars where the labels are not numbers in order.
ReportChart share_chart(const std::string& title, const std::string& caption, const std::string& x,
                        const std::vector<std::string>& labels,
                        const std::vector<EstimateLine>& lines, bool has_bars);

// Everything but training, stacked by cause, in percent of wall time. Null pointers are gaps.
ReportChart losses_chart(const std::string& title, const std::string& caption, const std::string& x,
                         const std::vector<std::string>& labels,
                         const std::vector<const RunEstimates*>& points);

// One forecast's losses, a bar for each cause.
ReportChart losses_chart(const std::string& title, const std::string& caption,
                         const RunEstimates& estimates);

// One number over `labels`; NaN is a gap.
ReportChart value_chart(const std::string& title, const std::string& caption, const std::string& x,
                        const std::string& y, const std::vector<std::string>& labels,
                        const std::vector<double>& values, bool is_logarithmic);

// Numbers of one kind over `labels`, as bars. NaN is a gap; no colour: the next of the palette.
struct BarSeries {
  std::string label;
  std::string colour;
  std::vector<double> values;
};
// Bars of one label stand beside each other, or on each other.
ReportChart bar_chart(const std::string& title, const std::string& caption, const std::string& x,
                      const std::string& y, const std::vector<std::string>& labels,
                      const std::vector<BarSeries>& series, bool is_stacked);

// A key with its unit: "failures.node_mtbf_hours (hours)".
std::string axis_text(const std::string& key);

}  // namespace evermoe
