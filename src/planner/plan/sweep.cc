#include "planner/plan/sweep.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "planner/report/amount_text.h"
#include "planner/report/forecast_json.h"

namespace evermoe {
namespace {

constexpr char kAllowed[] = "KEY=A,B,C, or KEY=A..B with 0 < A <= B";

absl::Status wrong(const std::string& text) {
  return InvalidInput(absl::StrCat("sweep: found \"", absl::Utf8SafeCEscape(text.substr(0, 80)),
                                   "\", allowed: ", kAllowed));
}

absl::StatusOr<std::vector<std::string>> doubled(const std::string& text, const std::string& first,
                                                 const std::string& last) {
  double value = 0, end = 0;
  const bool are_numbers = absl::SimpleAtod(first, &value) && absl::SimpleAtod(last, &end);
  if (!are_numbers || !(value > 0) || !(value <= end) || !std::isfinite(end / value))
    return wrong(text);
  std::vector<std::string> values;
  for (; value <= end; value *= 2) values.push_back(absl::StrFormat("%.17g", value));
  return values;
}

// The values at `index`, the first axis slowest.
std::vector<std::string> values_at(const std::vector<SweepAxis>& axes, size_t index) {
  std::vector<std::string> values(axes.size());
  for (size_t a = axes.size(); a-- > 0; index /= axes[a].values.size())
    values[a] = axes[a].values[index % axes[a].values.size()];
  return values;
}

std::vector<std::string> settings_of(const std::vector<SweepAxis>& axes,
                                     const std::vector<std::string>& values) {
  std::vector<std::string> settings;
  for (size_t a = 0; a < axes.size(); ++a)
    settings.push_back(absl::StrCat(axes[a].key, "=", values[a]));
  return settings;
}

}  // namespace

absl::StatusOr<SweepAxis> parse_sweep(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) return wrong(text);
  const size_t dots = parts[1].find("..");
  if (dots != std::string::npos) {
    ASSIGN_OR_RETURN(std::vector<std::string> values,
                     doubled(text, parts[1].substr(0, dots), parts[1].substr(dots + 2)));
    return SweepAxis{parts[0], std::move(values)};
  }
  std::vector<std::string> values = absl::StrSplit(parts[1], ',');
  if (std::any_of(values.begin(), values.end(),
                  [](const std::string& value) { return value.empty(); }))
    return wrong(text);
  return SweepAxis{parts[0], std::move(values)};
}

absl::StatusOr<Sweep> sweep(
    std::vector<SweepAxis> axes,
    const std::function<absl::StatusOr<RunForecast>(const std::vector<std::string>&)>&
        forecast_at) {
  size_t count = 1;
  for (const SweepAxis& axis : axes) count *= std::min(axis.values.size(), kSweepPointsMax + 1);
  if (count > kSweepPointsMax)
    return InvalidInput(
        absl::StrCat("sweep: found ", count, " points, allowed: at most ", kSweepPointsMax));
  Sweep result{std::move(axes), {}};
  for (size_t index = 0; index < count; ++index) {
    SweepPoint point{.values = values_at(result.axes, index)};
    const std::vector<std::string> settings = settings_of(result.axes, point.values);
    absl::StatusOr<RunForecast> forecast = forecast_at(settings);
    if (forecast.ok()) {
      point.forecast = *std::move(forecast);
    } else if (absl::IsResourceExhausted(forecast.status())) {
      point.refused = std::string(forecast.status().message());
    } else {
      return annotate(forecast.status(), absl::StrJoin(settings, " "));
    }
    result.points.push_back(std::move(point));
  }
  return result;
}

std::string to_text(const Sweep& sweep) {
  std::string text;
  std::vector<int> widths;
  for (size_t a = 0; a < sweep.axes.size(); ++a) {
    size_t width = sweep.axes[a].key.size();
    for (const std::string& value : sweep.axes[a].values) width = std::max(width, value.size());
    widths.push_back(static_cast<int>(width) + 2);
    absl::StrAppendFormat(&text, "%*s", widths.back(), sweep.axes[a].key);
  }
  absl::StrAppendFormat(&text, " %13s %9s %18s %12s %14s  %s\n", "one failure", "step", "ETTR",
                        "tokens/s", "downtime a day", "strategy");
  for (const SweepPoint& point : sweep.points) {
    for (size_t a = 0; a < point.values.size(); ++a)
      absl::StrAppendFormat(&text, "%*s", widths[a], point.values[a]);
    if (!point.forecast) {
      absl::StrAppend(&text, "  ", point.refused, "\n");
      continue;
    }
    const RunForecast& run = *point.forecast;
    const std::string ettr = absl::StrFormat("%.2f ± %.2f %%", 100 * run.estimates.ettr.mean,
                                             100 * run.estimates.ettr.half_width());
    absl::StrAppendFormat(
        &text, " %13s %9s %18s %12s %14s  %s\n", duration_text(run.job_mtbf_seconds),
        duration_text(run.step.profile.step_seconds), ettr, count_text(run.tokens_per_second),
        duration_text(86400 * run.estimates.downtime_share.mean), run.priced.strategy.name);
  }
  return text;
}

std::string to_json(const Sweep& sweep) {
  auto json = nlohmann::ordered_json::array();
  for (const SweepPoint& point : sweep.points) {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    for (size_t a = 0; a < sweep.axes.size(); ++a) settings[sweep.axes[a].key] = point.values[a];
    if (point.forecast) {
      json.push_back({{"settings", settings}, {"forecast", as_json(*point.forecast)}});
    } else {
      json.push_back({{"settings", settings}, {"refused", point.refused}});
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace evermoe
