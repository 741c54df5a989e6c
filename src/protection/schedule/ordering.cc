#include "protection/schedule/ordering.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

// Operator indices by ascending key; equal keys keep the order of indices.
CaptureOrder ascending(const std::vector<double>& keys) {
  CaptureOrder order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace

CaptureOrder order_by_popularity(std::span<const OperatorProfile> operators,
                                 std::span<const double> popularity) {
  std::vector<double> keys;
  for (const OperatorProfile& profile : operators) {
    CHECK(profile.expert < static_cast<int>(popularity.size())) << "expert " << profile.expert;
    keys.push_back(profile.expert < 0 ? std::numeric_limits<double>::infinity()
                                      : popularity[profile.expert]);
  }
  return ascending(keys);
}

CaptureOrder order_by_ratio(std::span<const OperatorProfile> operators) {
  std::vector<double> keys;
  for (const OperatorProfile& profile : operators) {
    keys.push_back(profile.cost.full_bytes == 0
                       ? std::numeric_limits<double>::infinity()
                       : profile.gradient_seconds / static_cast<double>(profile.cost.full_bytes));
  }
  return ascending(keys);
}

std::vector<OperatorCost> costs_in_order(std::span<const OperatorProfile> operators,
                                         const CaptureOrder& order) {
  CHECK(order.size() == operators.size());
  std::vector<OperatorCost> costs;
  for (const int index : order) costs.push_back(operators[index].cost);
  return costs;
}

double frozen_seconds_saved(std::span<const OperatorProfile> operators, const CaptureOrder& order,
                            const Window& window) {
  CHECK(order.size() == operators.size() &&
        window.slots.back().end == static_cast<int>(order.size()));
  double saved = 0;
  for (int k = 0; k < window.length(); ++k) {
    for (int i = window.slots[k].begin; i < window.slots[k].end; ++i) {
      saved += k * operators[order[i]].gradient_seconds;
    }
  }
  return saved;
}

}  // namespace evermoe
