// Forecasts as one static page: figures, plots, tables, and everything they need inside (no
// network; the page's own content policy forbids it). Plots are drawn by Chart.js
// (third_party/chart.js).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/plan/protection_plan.h"
#include "planner/plan/sweep.h"
#include "planner/plan/what_if.h"

namespace evermoe {

// A few figures that a reader should not have to look for.
struct ReportTiles {
  struct Tile {
    std::string label, value, note;
  };
  std::vector<Tile> tiles;
};

// One bar of coloured parts, as wide as their weights, and what each of them is.
struct ReportStrip {
  struct Part {
    std::string name, colour, value;
    double weight = 0;
  };
  std::string title, caption;
  std::vector<Part> parts;
};

struct ReportChart {
  std::string title, caption;
  std::string config;  // JSON, as Chart.js wants it
  double height_rem = 22;
};

// What a run did in time: rows of equal length, one below the other.
struct ReportTimeline {
  std::string title, caption;
  std::vector<RunSpan> spans;
  double row_seconds = 1;
  int rows = 1;
};

struct ReportTable {
  std::string title, note;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // a cell for each column
  std::vector<std::string> colours;            // of the rows' first cells; may be empty
  bool has_numbers = true;  // all columns but the first and the last are set to the right
};

struct ReportNotes {
  std::string title;
  std::vector<std::string> sentences;
};

using ReportBlock =
    std::variant<ReportTiles, ReportStrip, ReportChart, ReportTimeline, ReportTable, ReportNotes>;

struct ReportPage {
  std::string title;
  std::string summary;  // one or two sentences
  std::vector<ReportBlock> blocks;
};

// HTML. When its plots are drawn the body's data-charts is their number.
std::string to_html(const ReportPage& page);

// One forecast: its figures, where the time goes, one run as a timeline, a mean interruption, and
// what was assumed.
ReportPage report_page(const std::string& title, const RunForecast& forecast);

// ETTR over the first axis, one line (or bar, where the values are no numbers) for each combination
// of the others; what is lost at every point, by cause; a table. Points that were refused are gaps.
// A sweep without axes is one forecast.
ReportPage report_page(const std::string& title, const Sweep& sweep);

// ETTR, losses, downtime a day and spares over the number of GPUs, and why the ETTR rises where it
// does.
ReportPage report_page(const std::string& title, std::span<const ScaleRow> rows);

// A plan: the best candidate's figures, where its time goes, and all candidates compared.
ReportPage report_page(const ProtectionPlan& plan);

// The library's text (chart_js.cc is made from it).
std::string_view chart_js();

}  // namespace evermoe
