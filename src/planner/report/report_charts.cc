#include "planner/report/report_charts.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#e69f00", "#f0e442", "#000000"};
constexpr char kOfWallTime[] = "% of wall time";

std::string colour(size_t index) { return kColours[index % std::size(kColours)]; }

Json axis(const std::string& title) { return {{"title", {{"display", true}, {"text", title}}}}; }

Json options(const std::string& x, const std::string& y) {
  return {{"maintainAspectRatio", false}, {"scales", {{"x", axis(x)}, {"y", axis(y)}}}};
}

Json line(const std::string& label, const Json& values, const std::string& shade) {
  return {{"label", label},           {"data", values},   {"borderColor", shade},
          {"backgroundColor", shade}, {"borderWidth", 2}, {"spanGaps", false}};
}

// A thin broken line that the legend leaves out is one end of a 95 % interval: its label is empty.
Json interval_end(const Json& values, const std::string& shade) {
  Json result = line("", values, shade);
  result["borderWidth"] = 1;
  result["borderDash"] = {4, 4};
  result["pointRadius"] = 0;
  return result;
}

Json percents(const std::vector<const Estimate*>& shares, double Estimate::*field) {
  Json values = Json::array();
  for (const Estimate* share : shares)
    values.push_back(share != nullptr ? Json(100 * (share->*field)) : Json());
  return values;
}

ReportChart chart_of(const std::string& title, const std::string& caption, const char* type,
                     const Json& labels, const Json& datasets, const Json& how) {
  const Json config = {
      {"type", type}, {"data", {{"labels", labels}, {"datasets", datasets}}}, {"options", how}};
  return {.title = title, .caption = caption, .config = config.dump()};
}

}  // namespace

ReportChart share_chart(const std::string& title, const std::string& caption, const std::string& x,
                        const std::vector<std::string>& labels,
                        const std::vector<EstimateLine>& lines, bool has_bars) {
  Json datasets = Json::array();
  for (size_t i = 0; i < lines.size(); ++i) {
    datasets.push_back(line(lines[i].label, percents(lines[i].shares, &Estimate::mean), colour(i)));
    if (has_bars) continue;
    datasets.push_back(interval_end(percents(lines[i].shares, &Estimate::low), colour(i)));
    datasets.push_back(interval_end(percents(lines[i].shares, &Estimate::high), colour(i)));
  }
  return chart_of(title, caption, has_bars ? "bar" : "line", labels, datasets,
                  options(x, kOfWallTime));
}

ReportChart losses_chart(const std::string& title, const std::string& caption, const std::string& x,
                         const std::vector<std::string>& labels,
                         const std::vector<const RunEstimates*>& points) {
  Json datasets = Json::array();
  for (const TimeCause& cause : time_causes().subspan(1)) {
    Json values = Json::array();
    for (const RunEstimates* point : points)
      values.push_back(point != nullptr ? Json(100 * cause.share(*point)) : Json());
    datasets.push_back(
        {{"label", cause.name}, {"data", values}, {"backgroundColor", cause.colour}});
  }
  Json how = options(x, absl::StrCat("lost, ", kOfWallTime));
  how["scales"]["x"]["stacked"] = how["scales"]["y"]["stacked"] = true;
  return chart_of(title, caption, "bar", labels, datasets, how);
}

ReportChart losses_chart(const std::string& title, const std::string& caption,
                         const RunEstimates& estimates) {
  Json labels = Json::array(), values = Json::array(), colours = Json::array();
  for (const TimeCause& cause : time_causes().subspan(1)) {
    labels.push_back(cause.name);
    values.push_back(100 * cause.share(estimates));
    colours.push_back(cause.colour);
  }
  Json how = options(absl::StrCat("lost, ", kOfWallTime), "cause");
  how["indexAxis"] = "y";
  how["plugins"]["legend"]["display"] = false;
  const Json datasets =
      Json::array({{{"label", kOfWallTime}, {"data", values}, {"backgroundColor", colours}}});
  ReportChart chart = chart_of(title, caption, "bar", labels, datasets, how);
  chart.height_rem = 18;
  return chart;
}

ReportChart value_chart(const std::string& title, const std::string& caption, const std::string& x,
                        const std::string& y, const std::vector<std::string>& labels,
                        const std::vector<double>& values, bool is_logarithmic) {
  Json shown = Json::array();
  for (const double value : values) shown.push_back(std::isnan(value) ? Json() : Json(value));
  Json how = options(x, y);
  if (is_logarithmic) how["scales"]["y"]["type"] = "logarithmic";
  how["plugins"]["legend"]["display"] = false;
  ReportChart chart =
      chart_of(title, caption, "line", labels, Json::array({line(title, shown, colour(0))}), how);
  chart.height_rem = 16;
  return chart;
}

ReportChart bar_chart(const std::string& title, const std::string& caption, const std::string& x,
                      const std::string& y, const std::vector<std::string>& labels,
                      const std::vector<BarSeries>& series, bool is_stacked) {
  Json datasets = Json::array();
  for (size_t i = 0; i < series.size(); ++i) {
    Json shown = Json::array();
    for (const double value : series[i].values)
      shown.push_back(std::isnan(value) ? Json() : Json(value));
    datasets.push_back(
        {{"label", series[i].label},
         {"data", shown},
         {"backgroundColor", series[i].colour.empty() ? colour(i) : series[i].colour}});
  }
  Json how = options(x, y);
  if (is_stacked) how["scales"]["x"]["stacked"] = how["scales"]["y"]["stacked"] = true;
  return chart_of(title, caption, "bar", labels, datasets, how);
}

std::string axis_text(const std::string& key) {
  static constexpr std::pair<const char*, const char*> kUnits[] = {
      {"_hours", "hours"},       {"_microseconds", "µs"}, {"_gb_per_second", "GB/s"},
      {"_seconds", "s"},         {"_gb", "GB"},           {"_steps", "steps"},
      {"_share", "share"},       {".tflops", "TFLOP/s"},  {".nodes", "nodes"},
      {".spares", "nodes"},      {".racks", "racks"},     {"_bandwidth", "bytes/s"},
      {"gpus_per_node", "GPUs"}, {".window", "steps"},    {".copies", "copies"},
      {"memory_budget", "bytes"}};
  for (const auto& [ending, unit] : kUnits) {
    if (absl::EndsWith(key, ending)) return absl::StrCat(key, " (", unit, ")");
  }
  return key;
}

}  // namespace evermoe
