#include "checkpoint/ordering.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

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
    keys.push_back(profile.expert < 0 ? std::numeric_limits<double>::infinity() : popularity[profile.expert]);
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

CaptureOrder order_within_budget(std::span<const OperatorProfile> operators, const CaptureOrder& order,
                                 int64_t budget_bytes) {
  const auto spread = [&](int index) {
    return operators[index].cost.full_bytes - operators[index].cost.compute_bytes;
  };
  CaptureOrder by_spread = order;
  std::stable_sort(by_spread.begin(), by_spread.end(), [&](int a, int b) { return spread(a) < spread(b); });
  budget_bytes = std::max(budget_bytes, least_budget_bytes(costs_in_order(operators, by_spread)));

  std::vector<int> position(order.size());
  int64_t compute_left = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    position[order[i]] = static_cast<int>(i);
    compute_left += operators[order[i]].cost.compute_bytes;
  }
  std::set<int> allowed;  // positions in `order`
  CaptureOrder result;
  size_t next = 0;  // in by_spread
  while (result.size() < order.size()) {
    while (next < by_spread.size() && spread(by_spread[next]) <= budget_bytes - compute_left) {
      allowed.insert(position[by_spread[next++]]);
    }
    // What was allowed stays so, since less is left with every choice.
    CHECK(!allowed.empty()) << "no order within " << budget_bytes << " bytes";
    result.push_back(order[*allowed.begin()]);
    allowed.erase(allowed.begin());
    compute_left -= operators[result.back()].cost.compute_bytes;
  }
  return result;
}

std::vector<OperatorCost> costs_in_order(std::span<const OperatorProfile> operators, const CaptureOrder& order) {
  CHECK(order.size() == operators.size());
  std::vector<OperatorCost> costs;
  for (const int index : order) costs.push_back(operators[index].cost);
  return costs;
}

double frozen_seconds_saved(std::span<const OperatorProfile> operators, const CaptureOrder& order,
                            const Window& window) {
  CHECK(order.size() == operators.size() && window.slots.back().end == static_cast<int>(order.size()));
  double saved = 0;
  for (int k = 0; k < window.length(); ++k) {
    for (int i = window.slots[k].begin; i < window.slots[k].end; ++i) {
      saved += k * operators[order[i]].gradient_seconds;
    }
  }
  return saved;
}

}  // namespace evermoe
