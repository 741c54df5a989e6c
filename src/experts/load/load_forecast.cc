#include "experts/load/load_forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Cuts off what is below 0 and scales the rest to sum 1.
void normalise(std::vector<double>& shares) {
  double sum = 0;
  for (double& share : shares) sum += share = std::max(share, 0.0);
  for (double& share : shares) share /= sum;
}

double half_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / 2;
}

}  // namespace

absl::StatusOr<LoadForecast> LoadForecast::create(int experts, const LoadForecastOptions& options) {
  if (experts < 1) return InvalidInput("there are no experts to forecast");
  const auto is_share = [](double value) { return value >= 0 && value <= 1; };
  if (!is_share(options.level_gain) || options.level_gain == 0 || !is_share(options.trend_gain) ||
      !is_share(options.trend_damping)) {
    return InvalidInput(absl::StrCat("load forecast: gains ", options.level_gain, " and ",
                                     options.trend_gain, ", damping ", options.trend_damping,
                                     " must be between 0 and 1"));
  }
  return LoadForecast(experts, options);
}

LoadForecast::LoadForecast(int experts, const LoadForecastOptions& options)
    : options_(options), level_(experts, 1.0 / experts), trend_(experts, 0.0) {}

void LoadForecast::observe(std::span<const int64_t> tokens) {
  CHECK(tokens.size() == level_.size())
      << tokens.size() << " loads of " << level_.size() << " experts";
  CHECK(std::all_of(tokens.begin(), tokens.end(), [](int64_t load) { return load >= 0; }));
  std::vector<double> seen(tokens.begin(), tokens.end());
  if (std::accumulate(seen.begin(), seen.end(), 0.0) == 0) return;
  normalise(seen);
  if (records_++ == 0) {
    level_ = std::move(seen);
    return;
  }
  const double missed = half_distance(seen, shares(1));
  error_ =
      records_ == 2 ? missed : options_.level_gain * missed + (1 - options_.level_gain) * error_;
  for (size_t e = 0; e < level_.size(); ++e) {
    const double before = level_[e], drift = options_.trend_damping * trend_[e];
    level_[e] = options_.level_gain * seen[e] + (1 - options_.level_gain) * (before + drift);
    trend_[e] = options_.trend_gain * (level_[e] - before) + (1 - options_.trend_gain) * drift;
  }
}

std::vector<double> LoadForecast::shares(int ahead) const {
  CHECK(ahead >= 1) << ahead;
  // The mean over n = 1 .. ahead of d + d^2 + .. + d^n.
  double power = 1, sum = 0, sums = 0;
  for (int n = 0; n < ahead; ++n) {
    power *= options_.trend_damping;
    sum += power;
    sums += sum;
  }
  std::vector<double> expected(level_.size());
  for (size_t e = 0; e < level_.size(); ++e) expected[e] = level_[e] + sums / ahead * trend_[e];
  normalise(expected);
  return expected;
}

std::vector<int64_t> LoadForecast::loads(int ahead) const {
  std::vector<int64_t> loads;
  for (const double share : shares(ahead)) loads.push_back(std::llround(std::ldexp(share, 30)));
  return loads;
}

}  // namespace evermoe
