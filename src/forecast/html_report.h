// Forecasts as one static page: tables, plots, and everything they need inside (no network; the page's own content
// policy forbids it). Plots are drawn by Chart.js (third_party/chart.js).
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forecast/sweep.h"
#include "forecast/what_if.h"

namespace evermoe {

// A plot: what Chart.js wants, and a sentence below it.
struct ReportChart {
  std::string caption;
  nlohmann::ordered_json config;
};

struct ReportPage {
  std::string title;
  std::vector<std::string> texts;  // shown as they are, in fixed width
  std::vector<ReportChart> charts;
};

// HTML. When its plots are drawn the body's data-charts is their number.
std::string to_html(const ReportPage& page);

// ETTR over the first axis, one line for each combination of the others, with 95 % intervals; and where the time goes
// at every point. Points that were refused are gaps.
ReportPage report_page(const std::string& title, const Sweep& sweep);

// ETTR, downtime a day and spares over the number of GPUs.
ReportPage report_page(const std::string& title, std::span<const ScaleRow> rows);

// The library's text (chart_js.cc is made from it).
std::string_view chart_js();

}  // namespace evermoe
