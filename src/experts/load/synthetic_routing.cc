#include "experts/load/synthetic_routing.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <numeric>

#include "base/check.h"
#include "base/split_mix.h"

namespace evermoe {
namespace {

// However skewed, any expert may be chosen: that keeps top_k choices possible.
constexpr double kShareMin = 1e-12;

uint64_t scrambled(uint64_t x) { return split_mix(x + kSplitMixStep); }

// What is drawn for one purpose at one place: the n-th number of a stream is a function of n.
class DrawStream {
 public:
  DrawStream(uint64_t seed, std::initializer_list<int64_t> place) : key_(scrambled(seed)) {
    for (const int64_t part : place) key_ = scrambled(key_ ^ static_cast<uint64_t>(part));
  }
  // In (0, 1).
  double uniform(uint64_t n) const {
    return (static_cast<double>(scrambled(key_ + n) >> 11) + 0.5) * 0x1p-53;
  }

 private:
  uint64_t key_;
};

enum Purpose : int64_t { kPopularity = 1, kChoices = 2 };

// Marsaglia and Tsang's method, for shape > 1: a draw is rejected seldom.
double gamma_above_one(const DrawStream& draws, double shape, uint64_t& next) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double radius = std::sqrt(-2 * std::log(draws.uniform(next++)));
    const double normal = radius * std::cos(2 * std::numbers::pi * draws.uniform(next++));
    const double uniform = draws.uniform(next++);
    const double v = std::pow(1 + c * normal, 3);
    if (v > 0 && std::log(uniform) < 0.5 * normal * normal + d - d * v + d * std::log(v))
      return d * v;
  }
}

// The logarithm: with a small shape most draws are too small for a number.
double log_gamma_draw(const DrawStream& draws, double shape) {
  uint64_t next = 0;
  const double above = gamma_above_one(draws, shape + 1, next);
  return std::log(above) + std::log(draws.uniform(next)) / shape;
}

int64_t drift_epoch(const SyntheticRouting& routing, Step step) {
  return routing.drift_steps > 0 ? std::max<int64_t>(step.value, 0) / routing.drift_steps : 0;
}

// The expert at `at` of (0, mass of those that are not taken).
int64_t expert_at(std::span<const double> popularity, std::span<const int64_t> taken, double at) {
  int64_t last = 0;
  for (int64_t e = 0; e < std::ssize(popularity); ++e) {
    if (std::ranges::find(taken, e) != taken.end()) continue;
    last = e;
    at -= popularity[static_cast<size_t>(e)];
    if (at < 0) break;
  }
  return last;  // also where rounding has left a rest
}

}  // namespace

std::vector<double> synthetic_popularity(const SyntheticRouting& routing, int layer, Step step) {
  CHECK(routing.experts >= 1 && 0 <= routing.skew && routing.skew < 1)
      << routing.experts << " " << routing.skew;
  const auto experts = static_cast<size_t>(routing.experts);
  std::vector<double> share(experts, 1.0 / static_cast<double>(experts));
  if (routing.skew == 0) return share;
  // E[S] = 1 / (E alpha + 1).
  const double alpha = (1 / routing.skew - 1) / static_cast<double>(experts);
  for (size_t e = 0; e < experts; ++e) {
    share[e] = log_gamma_draw(DrawStream(routing.seed, {kPopularity, drift_epoch(routing, step),
                                                        layer, static_cast<int64_t>(e)}),
                              alpha);
  }
  const double largest = *std::ranges::max_element(share);
  double sum = 0;
  for (double& one : share) sum += one = std::max(std::exp(one - largest), kShareMin);
  for (double& one : share) one /= sum;
  return share;
}

std::vector<int64_t> synthetic_choices(const SyntheticRouting& routing, int layer, Step step,
                                       MicroBatch micro_batch, int64_t tokens,
                                       std::span<const double> popularity) {
  CHECK(1 <= routing.top_k && routing.top_k <= routing.experts &&
        std::ssize(popularity) == routing.experts)
      << routing.top_k << " of " << routing.experts << ", " << popularity.size();
  const DrawStream draws(routing.seed, {kChoices, step.value, layer, micro_batch.value});
  const double whole = std::accumulate(popularity.begin(), popularity.end(), 0.0);
  std::vector<int64_t> choices;
  choices.reserve(static_cast<size_t>(tokens * routing.top_k));
  for (int64_t token = 0; token < tokens; ++token) {
    double left = whole;
    for (int k = 0; k < routing.top_k; ++k) {
      const double uniform = draws.uniform(static_cast<uint64_t>(token * routing.top_k + k));
      const std::span<const int64_t> taken = std::span(choices).last(static_cast<size_t>(k));
      choices.push_back(expert_at(popularity, taken, uniform * left));
      left -= popularity[static_cast<size_t>(choices.back())];
    }
  }
  return choices;
}

double normalised_hhi(std::span<const int64_t> loads) {
  const auto experts = static_cast<double>(loads.size());
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (loads.size() < 2 || all == 0) return 0;
  double index = 0;
  for (const int64_t load : loads) {
    const double share = static_cast<double>(load) / all;
    index += share * share;
  }
  return std::max(0.0, (index - 1 / experts) / (1 - 1 / experts));
}

}  // namespace evermoe
