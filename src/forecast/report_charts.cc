// The plots of html_report.h.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "forecast/html_report.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#f0e442", "#000000"};

std::string colour(size_t index) { return kColours[index % std::size(kColours)]; }

Json axis(const std::string& title) { return {{"title", {{"display", true}, {"text", title}}}}; }

Json options(const std::string& title, const std::string& x, const std::string& y) {
  return {{"maintainAspectRatio", false},
          {"plugins", {{"title", {{"display", true}, {"text", title}}}}},
          {"scales", {{"x", axis(x)}, {"y", axis(y)}}}};
}

Json line(const std::string& label, const Json& values, const std::string& shade) {
  return {{"label", label}, {"data", values}, {"borderColor", shade}, {"backgroundColor", shade}, {"borderWidth", 2}, {"spanGaps", false}};
}

// A thin broken line that the legend leaves out is one end of a 95 % interval: its label is empty.
Json interval_end(const Json& values, const std::string& shade) {
  Json result = line("", values, shade);
  result["borderWidth"] = 1;
  result["borderDash"] = {4, 4};
  result["pointRadius"] = 0;
  return result;
}

// Means and both ends of the intervals of a share, in percent; null where there is none.
struct ShareLine {
  Json mean = Json::array(), low = Json::array(), high = Json::array();
  void add(const Estimate* share) {
    mean.push_back(share ? Json(100 * share->mean) : Json());
    low.push_back(share ? Json(100 * share->low) : Json());
    high.push_back(share ? Json(100 * share->high) : Json());
  }
  void append_to(Json& datasets, const std::string& label, const std::string& shade) const {
    datasets.push_back(line(label, mean, shade));
    datasets.push_back(interval_end(low, shade));
    datasets.push_back(interval_end(high, shade));
  }
};

std::string rest_of(const Sweep& sweep, const SweepPoint& point) {
  std::vector<std::string> parts;
  for (size_t a = 1; a < sweep.axes.size(); ++a) parts.push_back(absl::StrCat(sweep.axes[a].key, " ", point.values[a]));
  return parts.empty() ? "ETTR" : absl::StrJoin(parts, ", ");
}

ReportChart ettr_chart(const Sweep& sweep) {
  std::vector<std::pair<std::string, ShareLine>> lines;  // in order of appearance
  for (const SweepPoint& point : sweep.points) {
    const std::string label = rest_of(sweep, point);
    auto known = std::find_if(lines.begin(), lines.end(), [&](const auto& other) { return other.first == label; });
    if (known == lines.end()) known = lines.insert(lines.end(), {label, {}});
    known->second.add(point.forecast ? &point.forecast->estimates.ettr : nullptr);
  }
  Json datasets = Json::array();
  size_t index = 0;
  for (const auto& [label, values] : lines) values.append_to(datasets, label, colour(index++));
  const SweepAxis& x = sweep.axes.front();
  return {"Share of wall time that stayed done as training (ETTR). Broken lines: 95 % interval of the mean over the simulated runs.",
          {{"type", "line"}, {"data", {{"labels", x.values}, {"datasets", datasets}}}, {"options", options("ETTR", x.key, "% of wall time")}}};
}

struct TimePart {
  const char* label;
  double (*share)(const RunEstimates&);
};

constexpr TimePart kTimeParts[] = {
    {"training that stayed done", [](const RunEstimates& r) { return r.ettr.mean; }},
    {"stalls and overhead", [](const RunEstimates& r) { return r.protection_share.mean; }},
    {"work done again", [](const RunEstimates& r) { return r.rework_share.mean; }},
    {"recovering", [](const RunEstimates& r) { return r.downtime_share.mean - r.waiting_share.mean; }},
    {"waiting for nodes", [](const RunEstimates& r) { return r.waiting_share.mean; }},
    {"fewer nodes", [](const RunEstimates& r) { return r.shrunk_share.mean; }},
};

ReportChart time_chart(const Sweep& sweep) {
  Json labels = Json::array(), datasets = Json::array();
  for (const SweepPoint& point : sweep.points) labels.push_back(point.values.empty() ? "forecast" : absl::StrJoin(point.values, ", "));
  for (size_t part = 0; part < std::size(kTimeParts); ++part) {
    Json values = Json::array();
    for (const SweepPoint& point : sweep.points) values.push_back(point.forecast ? Json(100 * kTimeParts[part].share(point.forecast->estimates)) : Json());
    datasets.push_back({{"label", kTimeParts[part].label}, {"data", values}, {"backgroundColor", colour(part)}});
  }
  std::vector<std::string> keys;
  for (const SweepAxis& swept : sweep.axes) keys.push_back(swept.key);
  Json stacked = options("Where the time goes", absl::StrJoin(keys, ", "), "% of wall time");
  stacked["scales"]["x"]["stacked"] = stacked["scales"]["y"]["stacked"] = true;
  stacked["scales"]["y"]["max"] = 100;
  return {"All wall time, by what it was spent on.", {{"type", "bar"}, {"data", {{"labels", labels}, {"datasets", datasets}}}, {"options", stacked}}};
}

ReportChart scale_chart(std::span<const ScaleRow> rows, const std::string& title, const std::string& caption, double (*value)(const ScaleRow&),
                        bool is_logarithmic) {
  Json labels = Json::array(), values = Json::array();
  for (const ScaleRow& row : rows) {
    labels.push_back(row.gpus);
    values.push_back(row.refused.empty() ? Json(value(row)) : Json());
  }
  Json how = options(title, "GPUs", title);
  if (is_logarithmic) how["scales"]["y"]["type"] = "logarithmic";
  return {caption, {{"type", "line"}, {"data", {{"labels", labels}, {"datasets", {line(title, values, colour(0))}}}}, {"options", how}}};
}

ReportChart scale_ettr_chart(std::span<const ScaleRow> rows) {
  Json labels = Json::array(), datasets = Json::array();
  ShareLine ettr;
  for (const ScaleRow& row : rows) {
    labels.push_back(row.gpus);
    ettr.add(row.refused.empty() ? &row.ettr : nullptr);
  }
  ettr.append_to(datasets, "ETTR", colour(0));
  return {"ETTR of the best protection at each size. Broken lines: 95 % interval.",
          {{"type", "line"}, {"data", {{"labels", labels}, {"datasets", datasets}}}, {"options", options("ETTR", "GPUs", "% of wall time")}}};
}

}  // namespace

ReportPage report_page(const std::string& title, const Sweep& sweep) {
  ReportPage page{title, {to_text(sweep)}, {}};
  if (!sweep.axes.empty()) page.charts.push_back(ettr_chart(sweep));
  page.charts.push_back(time_chart(sweep));
  if (sweep.points.size() == 1 && sweep.points.front().forecast) page.texts = {to_text(*sweep.points.front().forecast)};
  return page;
}

ReportPage report_page(const std::string& title, std::span<const ScaleRow> rows) {
  ReportPage page{title, {to_text(rows)}, {scale_ettr_chart(rows)}};
  page.charts.push_back(scale_chart(rows, "downtime, minutes a day", "Recovering and waiting, on a logarithmic scale.",
                                    [](const ScaleRow& row) { return row.downtime_seconds_per_day / 60; }, true));
  page.charts.push_back(scale_chart(rows, "spare nodes", "Spares of the best plan.", [](const ScaleRow& row) { return double(row.spares); }, false));
  return page;
}

}  // namespace evermoe
