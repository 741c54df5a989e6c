#include "planner/failures/spare_demand.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "planner/simulate/closed_forms.h"

namespace evermoe {
namespace {

constexpr double kNegligible = 1e-18;  // weights that no sum notices

double node_down_share(const FailureLaw& law) { return 1 - availability(law, 0); }

double rack_down_share(const FailureLaw& law, int racks) {
  if (racks == 0 || law.rack_mtbf_seconds == 0) return 0;
  return law.rack_repair_seconds / (law.rack_mtbf_seconds + law.rack_repair_seconds);
}

// By d <= most: the probability that racks which are down have d nodes.
std::vector<double> down_with_racks(int nodes, int racks, double share, int most) {
  std::vector<double> weights(static_cast<size_t>(most) + 1, 0);
  const int size = nodes / racks, larger = nodes % racks, smaller = racks - larger;
  for (int i = 0; i <= larger && i * int64_t{size + 1} <= most; ++i) {
    const double of_larger = binomial(larger, i, share);
    if (of_larger < kNegligible) continue;
    for (int j = 0; j <= smaller; ++j) {
      const int64_t down = int64_t{i} * (size + 1) + int64_t{j} * size;
      if (down > most) break;
      weights[static_cast<size_t>(down)] += of_larger * binomial(smaller, j, share);
    }
  }
  return weights;
}

}  // namespace

double at_most_down(const FailureLaw& law, int nodes, int racks, int most) {
  CHECK(nodes >= 1 && most >= 0) << nodes << " nodes, at most " << most << " down";
  if (most >= nodes) return 1;
  const double up = 1 - node_down_share(law), rack_down = rack_down_share(law, racks);
  if (rack_down == 0) return at_least_up(nodes, nodes - most, up);
  const std::vector<double> weights = down_with_racks(nodes, racks, rack_down, most);
  double sum = 0;
  for (int down = 0; down <= most; ++down) {
    const double weight = weights[static_cast<size_t>(down)];
    if (weight >= kNegligible) sum += weight * at_least_up(nodes - down, nodes - most, up);
  }
  return std::min(1.0, sum);
}

double mean_down(const FailureLaw& law, int nodes, int racks) {
  return nodes * (1 - availability(law, racks));
}

std::optional<int> spares_needed(const FailureLaw& law, int nodes, int racks, double probability,
                                 int spares_max) {
  CHECK(0 < probability && probability < 1 && spares_max >= 0) << probability;
  const auto suffice = [&](int spares) {
    return at_most_down(law, nodes + spares, racks, spares) >= probability;
  };
  if (suffice(0)) return 0;
  int low = 0, high = 1;
  while (high < spares_max && !suffice(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, spares_max);
  if (!suffice(high)) return std::nullopt;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (suffice(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace evermoe
