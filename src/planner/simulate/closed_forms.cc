#include "planner/simulate/closed_forms.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

double log_binomial(int n, int k, double up) {
  if (up == 0) return k == 0 ? 0 : -INFINITY;
  if (up == 1) return k == n ? 0 : -INFINITY;
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) + k * std::log(up) +
         (n - k) * std::log1p(-up);
}

// (e^x - 1) / x.
double mean_exponential(double x) { return x == 0 ? 1 : std::expm1(x) / x; }

}  // namespace

double dense_ettr(double step_seconds, const PeriodicSave& save, double step_overhead_share,
                  double recovery_seconds, double mtbf_seconds) {
  CHECK(save.every_steps >= 1 && mtbf_seconds > 0 && step_seconds > 0);
  const double work =
      static_cast<double>(save.every_steps) * step_seconds * (1 + step_overhead_share);
  const double cycle = work + save.stall_seconds;
  const double kept =
      work * std::exp(-(save.durable_after_seconds + recovery_seconds) / mtbf_seconds);
  return kept / (mtbf_seconds * std::expm1(cycle / mtbf_seconds)) / (1 + step_overhead_share);
}

double sparse_ettr(const TrainedJob& job, const SparseCapture& sparse, double step_overhead_share,
                   double fixed_seconds, double mtbf_seconds, int adjacent) {
  const double share = job.stage_share(adjacent) / mtbf_seconds;
  const double step = share * job.step_seconds;
  // Whole steps since the newest complete window: 1 + lag .. W + lag, all equally likely.
  double whole = 0;
  for (int i = 1; i <= sparse.window; ++i)
    whole += std::exp(step * (i + sparse.lag_steps)) / sparse.window;
  const double grown = std::exp(fixed_seconds / mtbf_seconds + share * sparse.conversion_seconds) *
                       whole * mean_exponential(step);
  return 1 / ((1 + step_overhead_share) * grown);
}

double sparse_catch_up_seconds(const TrainedJob& job, const SparseCapture& sparse, int adjacent) {
  const double again = (sparse.window / 2.0 + 1 + sparse.lag_steps) * job.step_seconds;
  return job.stage_share(adjacent) * (sparse.conversion_seconds + again);
}

double product_ettr(double overhead_share, double recovery_seconds, double mtbf_seconds) {
  return 1 / ((1 + overhead_share) * (1 + recovery_seconds / mtbf_seconds));
}

double expected_seconds_without_saves(double work_seconds, double recovery_seconds,
                                      double mtbf_seconds) {
  return mtbf_seconds * std::exp(recovery_seconds / mtbf_seconds) *
         std::expm1(work_seconds / mtbf_seconds);
}

double binomial(int nodes, int count, double share) {
  return std::exp(log_binomial(nodes, count, share));
}

double at_least_up(int nodes, int least, double up) {
  CHECK(nodes >= 0 && up >= 0 && up <= 1);
  double sum = 0;
  for (int k = std::max(least, 0); k <= nodes; ++k) sum += binomial(nodes, k, up);
  return std::min(1.0, sum);
}

}  // namespace evermoe
