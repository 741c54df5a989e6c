// Many forecasts of one job: every combination of values that some keys take.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/simulate/run_forecast.h"

namespace evermoe {

struct SweepAxis {
  std::string key;  // of a cluster or of a job's configuration
  std::vector<std::string> values;
};

inline constexpr size_t kSweepPointsMax = 1000;

// "KEY=A,B,C", or "KEY=A..B" for A, 2A, 4A, ... up to B. InvalidInput for anything else.
absl::StatusOr<SweepAxis> parse_sweep(const std::string& text);

struct SweepPoint {
  std::vector<std::string> values;      // by axis
  std::optional<RunForecast> forecast;  // none if the job does not fit
  std::string refused;                  // then why
};

struct Sweep {
  std::vector<SweepAxis> axes;
  std::vector<SweepPoint> points;  // the first axis changes slowest
};

// `forecast_at` gets "KEY=VALUE" of every axis. What does not fit (NoCapacity) is a point without a
// forecast; any other error is returned with the values before it. InvalidInput for more than
// kSweepPointsMax points.
absl::StatusOr<Sweep> sweep(
    std::vector<SweepAxis> axes,
    const std::function<absl::StatusOr<RunForecast>(const std::vector<std::string>&)>& forecast_at);

std::string to_text(const Sweep& sweep);
// A JSON array: each point's settings and forecast, or "refused".
std::string to_json(const Sweep& sweep);

}  // namespace evermoe
