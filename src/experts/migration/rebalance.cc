#include "experts/migration/rebalance.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace evermoe {

namespace {

// By expert: the load of one of its replicas. A node has the sum of those that it holds.
std::vector<double> of_replicas(std::span<const double> shares, std::span<const int> replicas) {
  std::vector<double> each(shares.begin(), shares.end());
  for (size_t expert = 0; expert < each.size(); ++expert) {
    CHECK(shares[expert] <= 0 || replicas[expert] > 0)
        << "expert " << expert << " has load and no replica";
    if (replicas[expert] > 0) each[expert] /= replicas[expert];
  }
  return each;
}

double slowdown(double busiest, size_t nodes, std::span<const double> shares) {
  double sum = 0;
  for (const double share : shares) sum += share;
  return sum <= 0 ? 1 : std::max(1.0, busiest * static_cast<double>(nodes) / sum);
}

}  // namespace

double expert_slowdown(const ExpertsOfNodes& experts_of, std::span<const double> shares) {
  std::vector<int> replicas(shares.size(), 0);
  for (const auto& on_node : experts_of) {
    for (const int expert : on_node) {
      CHECK(expert >= 0 && static_cast<size_t>(expert) < shares.size())
          << expert << " of " << shares.size();
      ++replicas[expert];
    }
  }
  const std::vector<double> each = of_replicas(shares, replicas);
  double busiest = 0;
  for (const auto& on_node : experts_of) {
    double load = 0;
    for (const int expert : on_node) load += each[expert];
    busiest = std::max(busiest, load);
  }
  return slowdown(busiest, experts_of.size(), shares);
}

RebalanceDecision decide_rebalance(Step now, const RebalanceState& state,
                                   const RebalanceOutlook& outlook,
                                   const RebalanceOptions& options) {
  CHECK(outlook.slowdown_now >= 1 && outlook.slowdown_after >= 1);
  const auto move = [&](std::string reason) {
    return RebalanceDecision{.move = true, .state = {.moved = now}, .reason = std::move(reason)};
  };
  if (outlook.distinct_now < outlook.distinct_promised) {
    return move(absl::StrFormat("move: an expert is on %d nodes, %d are promised",
                                outlook.distinct_now, outlook.distinct_promised));
  }
  RebalanceState next = state;
  const auto stay = [&](std::string reason) {
    return RebalanceDecision{.move = false, .state = next, .reason = std::move(reason)};
  };
  const double gain = outlook.slowdown_now / outlook.slowdown_after;
  if (gain < options.gain_stop) {
    next.count = 0;
    return stay(absl::StrFormat("stay: a gain of %.3f is below %.3f", gain, options.gain_stop));
  }
  if (gain >= options.gain_start) next.count = std::min(next.count + 1, options.evaluations);
  if (next.count < options.evaluations) {
    return stay(absl::StrFormat("stay: a gain of %.3f, %d of %d evaluations at least %.3f", gain,
                                next.count, options.evaluations, options.gain_start));
  }
  const int64_t since = now.value - state.moved.value;
  if (since < options.pause_steps) {
    return stay(absl::StrFormat("stay: %d steps since the last move, %d are the least", since,
                                options.pause_steps));
  }
  const double saved = (outlook.slowdown_now - outlook.slowdown_after) * outlook.balanced_seconds;
  if (saved * static_cast<double>(options.payback_steps) < outlook.migration_seconds) {
    return stay(absl::StrFormat(
        "stay: saves %.3g s a step, the migration takes %.3g s and must pay within %d steps", saved,
        outlook.migration_seconds, options.payback_steps));
  }
  return move(absl::StrFormat(
      "move: slowdown %.3f to %.3f saves %.3g s a step, the migration takes %.3g s",
      outlook.slowdown_now, outlook.slowdown_after, saved, outlook.migration_seconds));
}

}  // namespace evermoe
