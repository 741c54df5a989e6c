#include "forecast/html_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace evermoe {
namespace {

constexpr char kHead[] = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
)";

constexpr char kStyle[] = R"(<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
pre { overflow-x: auto; background: #f6f6f6; padding: 0.8rem; font-size: 13px; }
figure { margin: 2rem 0; } figcaption { color: #555; }
.plot { position: relative; height: 24rem; }
</style>
)";

// Draws every plot; the page counts those that were.
constexpr char kDraw[] = R"(
Chart.defaults.animation = false;
Chart.defaults.plugins.legend.labels.filter = function (item) { return item.text !== ""; };
document.querySelectorAll("script[type='application/json']").forEach(function (text, i) {
  new Chart(document.getElementById("plot" + i), JSON.parse(text.textContent));
  document.body.dataset.charts = i + 1;
});
)";

std::string escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// JSON that may stand in a script element: "</script>" in a text would end it.
std::string embedded(const nlohmann::ordered_json& json) { return absl::StrReplaceAll(json.dump(), {{"<", "\\u003c"}}); }

}  // namespace

std::string to_html(const ReportPage& page) {
  std::string html = absl::StrCat(kHead, "<title>", escaped(page.title), "</title>\n", kStyle, "</head>\n<body>\n<h1>", escaped(page.title), "</h1>\n");
  for (size_t i = 0; i < page.charts.size(); ++i) {
    const ReportChart& chart = page.charts[i];
    absl::StrAppend(&html, "<figure><div class=\"plot\"><canvas id=\"plot", i, "\"></canvas></div><figcaption>", escaped(chart.caption),
                    "</figcaption></figure>\n<script type=\"application/json\">", embedded(chart.config), "</script>\n");
  }
  for (const std::string& text : page.texts) absl::StrAppend(&html, "<pre>", escaped(text), "</pre>\n");
  absl::StrAppend(&html, "<script>", std::string(chart_js()), "</script>\n<script>", kDraw, "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace evermoe
