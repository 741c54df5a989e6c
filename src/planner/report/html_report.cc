#include "planner/report/html_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "planner/report/amount_text.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

constexpr char kHead[] = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
)";

// Below 48rem a table's rows become cards: every cell says its column's name itself.
constexpr char kStyle[] = R"(<style>
:root { --ink: #1d2430; --soft: #5b6575; --line: #d9dee6; --shade: #f5f7fa; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: #fff; margin: 0; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
header { border-bottom: 2px solid var(--ink); margin-bottom: 1.5rem; padding-bottom: 1rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 0.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 0.25rem; }
section { margin: 0 0 2.5rem; }
header p, .caption { color: var(--soft); margin: 0 0 0.75rem; max-width: 60rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 0.75rem; }
.tile { background: var(--shade); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem; min-width: 0; }
.tile .label, .tile .note { color: var(--soft); font-size: 0.875rem; display: block; }
.tile .value { font-size: 1.5rem; font-weight: 600; display: block; line-height: 1.3; }
.strip { display: flex; height: 2.25rem; border-radius: 4px; overflow: hidden; }
.strip span { min-width: 2px; flex-basis: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0; margin: 0.6rem 0 0; list-style: none; font-size: 0.9rem; }
.swatch { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.4em; }
.plot { position: relative; width: 100%; min-width: 0; }
.track { position: relative; height: 1.4rem; overflow: hidden; border-radius: 3px; }
.track span { position: absolute; top: 0; bottom: 0; min-width: 3px; }
.row { display: grid; grid-template-columns: 5.5rem minmax(0, 1fr); align-items: center; gap: 0.5rem; margin: 0.2rem 0; font-size: 0.85rem; }
.row .from { color: var(--soft); text-align: right; }
.ticks { display: flex; justify-content: space-between; color: var(--soft); border-top: 1px solid var(--line); }
table { width: 100%; border-collapse: collapse; font-size: 0.92rem; }
th, td { text-align: left; padding: 0.4rem 0.6rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; border-bottom: 2px solid var(--line); overflow-wrap: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
ul { padding-left: 1.2rem; margin: 0; }
@media (max-width: 48rem) {
  thead { display: none; }
  tr { display: block; border: 1px solid var(--line); border-radius: 6px; margin-bottom: 0.75rem; padding: 0.25rem 0; }
  td, td.number { display: flex; justify-content: space-between; gap: 1rem; text-align: right; border-bottom: 0; padding: 0.2rem 0.75rem; }
  td::before { content: attr(data-label); color: var(--soft); text-align: left; flex: 0 0 45%; }
  td > div { min-width: 0; }
}
@media print { section { break-inside: avoid; } }
</style>
)";

// Draws every plot; the page counts those that were.
constexpr char kDraw[] = R"(
Chart.defaults.animation = false;
Chart.defaults.font.size = 13;
Chart.defaults.color = "#5b6575";
Chart.defaults.plugins.legend.position = "bottom";
Chart.defaults.plugins.legend.labels.boxWidth = 14;
Chart.defaults.plugins.legend.labels.filter = function (item) { return item.text !== ""; };
document.querySelectorAll("script[type='application/json']").forEach(function (text, i) {
  new Chart(document.getElementById("plot" + i), JSON.parse(text.textContent));
  document.body.dataset.charts = i + 1;
});
)";

std::string escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Names of keys may break after their dots and underscores.
std::string breakable(const std::string& text) {
  return absl::StrReplaceAll(escaped(text), {{".", ".<wbr>"}, {"_", "_<wbr>"}});
}

std::string heading(const std::string& title, const std::string& caption) {
  return absl::StrCat(
      title.empty() ? "" : absl::StrCat("<h2>", escaped(title), "</h2>\n"),
      caption.empty() ? "" : absl::StrCat("<p class=\"caption\">", escaped(caption), "</p>\n"));
}

std::string swatch(const std::string& colour) {
  return absl::StrCat("<span class=\"swatch\" style=\"background:", colour, "\"></span>");
}

// Blocks as HTML; plots are numbered as they come.
class BlockWriter {
 public:
  std::string operator()(const ReportTiles& block) {
    std::string html = "<div class=\"tiles\">\n";
    for (const ReportTiles::Tile& tile : block.tiles) {
      absl::StrAppend(&html, "<div class=\"tile\"><span class=\"label\">", escaped(tile.label),
                      "</span><span class=\"value\">", escaped(tile.value),
                      "</span><span class=\"note\">", escaped(tile.note), "</span></div>\n");
    }
    return absl::StrCat(html, "</div>\n");
  }

  std::string operator()(const ReportStrip& block) {
    std::string html = absl::StrCat(heading(block.title, block.caption), "<div class=\"strip\">");
    for (const ReportStrip::Part& part : block.parts) {
      if (part.weight <= 0) continue;
      absl::StrAppendFormat(&html,
                            "<span style=\"flex-grow:%.6f;background:%s\" title=\"%s: %s\"></span>",
                            part.weight, part.colour, escaped(part.name), escaped(part.value));
    }
    html += "</div>\n<ul class=\"legend\">";
    for (const ReportStrip::Part& part : block.parts) {
      absl::StrAppend(&html, "<li>", swatch(part.colour), escaped(part.name), " ",
                      escaped(part.value), "</li>");
    }
    return absl::StrCat(html, "</ul>\n");
  }

  // JSON that may stand in a script element: "</script>" in a text would end it.
  std::string operator()(const ReportChart& block) {
    return absl::StrCat(heading(block.title, block.caption),
                        "<div class=\"plot\" style=\"height:", block.height_rem,
                        "rem\"><canvas id=\"plot", plots_++, "\" role=\"img\" aria-label=\"",
                        escaped(block.title),
                        "\"></canvas></div>\n<script type=\"application/json\">",
                        absl::StrReplaceAll(block.config, {{"<", "\\u003c"}}), "</script>\n");
  }

  std::string operator()(const ReportTimeline& block) {
    std::string html = heading(block.title, block.caption);
    for (int row = 0; row < block.rows; ++row) absl::StrAppend(&html, timeline_row(block, row));
    html += "<div class=\"row\"><span class=\"from\"></span><div class=\"ticks\">";
    for (int tick = 0; tick <= 4; ++tick)
      absl::StrAppend(
          &html, "<span>",
          tick == 0 ? "0" : absl::StrCat("+", duration_text(block.row_seconds * tick / 4)),
          "</span>");
    html += "</div></div>\n<ul class=\"legend\">";
    for (const TimeCause& cause : time_causes()) {
      const bool is_shown =
          &cause == &time_causes().front() || cause.span != RunSpan::Kind::kTraining;
      if (is_shown)
        absl::StrAppend(&html, "<li>", swatch(cause.colour),
                        cause.span == RunSpan::Kind::kTraining ? "training" : cause.name, "</li>");
    }
    return absl::StrCat(html, "</ul>\n");
  }

  std::string operator()(const ReportTable& block) {
    std::string html = absl::StrCat(heading(block.title, block.note), "<table>\n<thead><tr>");
    for (size_t c = 0; c < block.columns.size(); ++c)
      absl::StrAppend(&html, "<th", number_class(block, c), ">", breakable(block.columns[c]),
                      "</th>");
    html += "</tr></thead>\n<tbody>\n";
    for (size_t r = 0; r < block.rows.size(); ++r) {
      html += "<tr>";
      for (size_t c = 0; c < block.rows[r].size(); ++c) {
        const std::string mark = c == 0 && r < block.colours.size() ? swatch(block.colours[r]) : "";
        absl::StrAppend(&html, "<td", number_class(block, c), " data-label=\"",
                        escaped(block.columns[c]), "\"><div>", mark, escaped(block.rows[r][c]),
                        "</div></td>");
      }
      html += "</tr>\n";
    }
    return absl::StrCat(html, "</tbody>\n</table>\n");
  }

  std::string operator()(const ReportNotes& block) {
    std::string html = absl::StrCat(heading(block.title, ""), "<ul>\n");
    for (const std::string& sentence : block.sentences)
      absl::StrAppend(&html, "<li>", escaped(sentence), "</li>\n");
    return absl::StrCat(html, "</ul>\n");
  }

 private:
  static std::string number_class(const ReportTable& table, size_t column) {
    return table.has_numbers && column > 0 && column + 1 < table.columns.size()
               ? " class=\"number\""
               : "";
  }

  // Training is the ground on which everything else is drawn.
  static std::string timeline_row(const ReportTimeline& block, int row) {
    const double begin = row * block.row_seconds, end = begin + block.row_seconds;
    std::string html = absl::StrFormat(
        "<div class=\"row\"><span class=\"from\">%s</span><div class=\"track\" "
        "style=\"background:%s\">",
        row == 0 ? "start" : duration_text(begin), time_causes().front().colour);
    for (const RunSpan& span : block.spans) {
      if (span.kind == RunSpan::Kind::kTraining || span.end_seconds <= begin ||
          span.begin_seconds >= end)
        continue;
      const auto cause = std::find_if(time_causes().begin(), time_causes().end(),
                                      [&](const TimeCause& c) { return c.span == span.kind; });
      const double from = std::max(begin, span.begin_seconds), to = std::min(end, span.end_seconds);
      absl::StrAppendFormat(
          &html, "<span style=\"left:%.4f%%;width:%.4f%%;background:%s\" title=\"%s: %s\"></span>",
          100 * (from - begin) / block.row_seconds, 100 * (to - from) / block.row_seconds,
          cause->colour, cause->name, duration_text(span.end_seconds - span.begin_seconds));
    }
    return absl::StrCat(html, "</div></div>\n");
  }

  int plots_ = 0;
};

}  // namespace

std::string to_html(const ReportPage& page) {
  std::string html = absl::StrCat(kHead, "<title>", escaped(page.title), "</title>\n", kStyle,
                                  "</head>\n<body>\n<main>\n<header>\n<h1>", escaped(page.title),
                                  "</h1>\n<p>", escaped(page.summary), "</p>\n</header>\n");
  BlockWriter writer;
  for (const ReportBlock& block : page.blocks)
    absl::StrAppend(&html, "<section>\n", std::visit(writer, block), "</section>\n");
  absl::StrAppend(&html, "</main>\n<script>", std::string(chart_js()), "</script>\n<script>", kDraw,
                  "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace evermoe
