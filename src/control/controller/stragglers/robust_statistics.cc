#include "control/controller/stragglers/robust_statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace evermoe {
namespace {

// Of all but the one at `own`. REQUIRES: two at least, ascending.
double median_without(const std::vector<double>& sorted, size_t own) {
  const auto other = [&](size_t i) { return sorted[i < own ? i : i + 1]; };
  const size_t count = sorted.size() - 1;
  return count % 2 == 1 ? other(count / 2) : (other(count / 2 - 1) + other(count / 2)) / 2;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<double> ratios_to_others(const std::vector<double>& values) {
  std::vector<double> sorted = values, ratios;
  std::ranges::sort(sorted);
  for (const double value : values) {
    const auto own = static_cast<size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin());
    ratios.push_back(value / median_without(sorted, own));
  }
  return ratios;
}

double spread(const std::vector<double>& values) {
  constexpr double kSpreadsOfDeviation = 1.4826;
  const double middle = median(values);
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - middle));
  return kSpreadsOfDeviation * median(std::move(deviations));
}

double spread_of_neighbours(const std::vector<double>& values) {
  std::vector<double> differences;
  for (size_t i = 1; i < values.size(); ++i) differences.push_back(values[i] - values[i - 1]);
  return differences.empty() ? 0 : spread(differences) / std::numbers::sqrt2;
}

double error_of_median(double spread, std::ptrdiff_t count) {
  return spread * std::sqrt(std::numbers::pi / 2 / static_cast<double>(count));
}

}  // namespace evermoe
