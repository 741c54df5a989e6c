#include "planner/simulate/estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

constexpr double kStudent95[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                 2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
constexpr double kNormal95 = 1.959964;

Estimate with_interval(int count, double mean, double deviation) {
  Estimate result{.count = count, .mean = mean, .deviation = deviation};
  if (count > 1) result.error = deviation / std::sqrt(count);
  const double half = count > 1 ? student_t_95(count - 1) * result.error : 0;
  result.low = mean - half;
  result.high = mean + half;
  return result;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

// Beyond the table by Cornish and Fisher's expansion around the normal quantile.
double student_t_95(int degrees) {
  CHECK(degrees >= 1) << degrees;
  if (degrees <= std::ssize(kStudent95)) return kStudent95[degrees - 1];
  const double z = kNormal95, n = degrees;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

Estimate estimate_mean(std::span<const double> values) {
  CHECK(!values.empty());
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double count = static_cast<double>(values.size());
  return with_interval(static_cast<int>(values.size()), mean,
                       count > 1 ? std::sqrt(squares / (count - 1)) : 0);
}

Estimate estimate_ratio(std::span<const double> numerators, std::span<const double> denominators) {
  CHECK(!numerators.empty() && numerators.size() == denominators.size());
  const double below = mean_of(denominators);
  CHECK(below > 0) << below;
  const double ratio = mean_of(numerators) / below;
  double squares = 0;
  for (size_t i = 0; i < numerators.size(); ++i) {
    const double residual = (numerators[i] - ratio * denominators[i]) / below;
    squares += residual * residual;
  }
  const double count = static_cast<double>(numerators.size());
  return with_interval(static_cast<int>(numerators.size()), ratio,
                       count > 1 ? std::sqrt(squares / (count - 1)) : 0);
}

RunEstimates estimate_runs(
    const TrainedJob& job, const RunStrategy& strategy, const RunLimits& limits,
    const std::function<std::unique_ptr<AvailabilitySource>(uint64_t)>& source, int runs,
    uint64_t first_seed) {
  CHECK(runs >= 1) << runs;
  std::vector<SimulatedRun> all;
  for (int i = 0; i < runs; ++i) {
    all.push_back(
        simulate_run(job, strategy, *source(first_seed + static_cast<uint64_t>(i)), limits));
  }
  auto values = [&](auto value) {
    std::vector<double> result;
    for (const SimulatedRun& run : all) result.push_back(static_cast<double>(value(run)));
    return result;
  };
  const std::vector<double> wall = values([](const SimulatedRun& run) { return run.wall_seconds; });
  auto share = [&](auto value) { return estimate_ratio(values(value), wall); };
  RunEstimates result;
  result.ettr = share([](const SimulatedRun& run) { return run.useful_seconds; });
  result.downtime_share = share([](const SimulatedRun& run) { return run.downtime_seconds(); });
  result.detection_share = share([](const SimulatedRun& run) { return run.detection_seconds; });
  result.change_share = share([](const SimulatedRun& run) { return run.change_seconds; });
  result.restore_share = share([](const SimulatedRun& run) { return run.restore_seconds(); });
  result.waiting_share = share([](const SimulatedRun& run) { return run.waiting_seconds; });
  result.rework_share = share([](const SimulatedRun& run) { return run.rework_seconds; });
  result.protection_share = share([](const SimulatedRun& run) { return run.protection_seconds; });
  result.shrunk_share = share([](const SimulatedRun& run) { return run.shrunk_seconds; });
  const auto interruptions = values([](const SimulatedRun& run) { return run.interruptions; });
  result.interruptions_per_day = share(
      [](const SimulatedRun& run) { return 86400.0 * static_cast<double>(run.interruptions); });
  result.moves_per_day =
      share([](const SimulatedRun& run) { return 86400.0 * static_cast<double>(run.migrations); });
  for (const SimulatedRun& run : all) {
    result.interruptions += run.interruptions;
    result.fallbacks += run.fallbacks;
  }
  if (result.interruptions > 0) {
    result.downtime_per_interruption_seconds = estimate_ratio(
        values([](const SimulatedRun& run) { return run.downtime_seconds(); }), interruptions);
  }
  const auto useful = values([](const SimulatedRun& run) { return run.useful_seconds; });
  if (mean_of(useful) > 0) {
    result.lost_share = estimate_ratio(
        values([&](const SimulatedRun& run) { return run.lost_steps * job.step_seconds; }), useful);
  }
  return result;
}

}  // namespace evermoe
