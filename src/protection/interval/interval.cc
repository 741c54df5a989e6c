#include "protection/interval/interval.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace evermoe {
namespace {

void check_costs(const IntervalCosts& costs) {
  CHECK(costs.save_seconds > 0 && costs.mtbf_seconds > 0 && costs.restart_seconds >= 0)
      << "C " << costs.save_seconds << ", M " << costs.mtbf_seconds << ", R "
      << costs.restart_seconds;
}

// -ln(1 - u) - u = u^2/2 + u^3/3 + ..., without cancellation for small u.
double log_excess(double u) {
  if (u > 0.1) return -std::log1p(-u) - u;
  double sum = 0;
  for (int k = 20; k >= 2; --k) sum = sum * u + 1.0 / k;
  return sum * u * u;
}

}  // namespace

double young_interval_seconds(const IntervalCosts& costs) {
  check_costs(costs);
  return std::sqrt(2 * costs.save_seconds * costs.mtbf_seconds);
}

double daly_first_order_interval_seconds(const IntervalCosts& costs) {
  return std::max(0.0, young_interval_seconds(costs) - costs.save_seconds);
}

double daly_higher_order_interval_seconds(const IntervalCosts& costs) {
  check_costs(costs);
  const double ratio = costs.save_seconds / (2 * costs.mtbf_seconds);
  if (ratio >= 1) return costs.mtbf_seconds;
  return young_interval_seconds(costs) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         costs.save_seconds;
}

// u = 1 + W solves (1 - u) e^u = e^-x. Newton's method on its logarithm, from the side from which
// it converges without overshooting; for large x in v = 1 - u, which is then small.
double lambert_interval_factor(double x) {
  CHECK(x > 0) << x;
  if (x > 0.4) {
    double v = std::exp(-1 - x);  // below the root of ln v - v + 1 + x
    if (v < 1e-300) return 1;
    for (int i = 0; i < 60; ++i) v -= (std::log(v) - v + 1 + x) / (1 / v - 1);
    return 1 - v;
  }
  double u = std::sqrt(2 * x);  // above the root of log_excess(u) = x
  for (int i = 0; i < 60; ++i) u -= (log_excess(u) - x) * (1 - u) / u;
  return u;
}

double best_interval_seconds(const IntervalCosts& costs) {
  check_costs(costs);
  return costs.mtbf_seconds * lambert_interval_factor(costs.save_seconds / costs.mtbf_seconds);
}

double efficiency(double work_seconds, const IntervalCosts& costs) {
  check_costs(costs);
  CHECK(work_seconds > 0) << work_seconds;
  const double mtbf = costs.mtbf_seconds;
  return work_seconds / (mtbf * std::exp(costs.restart_seconds / mtbf) *
                         std::expm1((work_seconds + costs.save_seconds) / mtbf));
}

double linear_waste(double cycle_seconds, const IntervalCosts& costs) {
  check_costs(costs);
  CHECK(cycle_seconds > 0) << cycle_seconds;
  return costs.save_seconds / cycle_seconds +
         (cycle_seconds / 2 + costs.restart_seconds) / costs.mtbf_seconds;
}

double mean_lost_seconds(double cycle_seconds, double mtbf_seconds) {
  CHECK(cycle_seconds > 0 && mtbf_seconds > 0);
  return mtbf_seconds - cycle_seconds / std::expm1(cycle_seconds / mtbf_seconds);
}

}  // namespace evermoe
