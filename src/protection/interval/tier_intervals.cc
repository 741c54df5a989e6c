#include "protection/interval/tier_intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace evermoe {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A tier in use with the failures that fall to it.
struct UsedTier {
  int tier = 0;
  CheckpointTier costs;
  double rate = 0;  // L_t, failures per second
};

// Nothing if a kind of failure is survived by none of the tiers in `used`.
std::optional<std::vector<UsedTier>> with_failures(std::span<const CheckpointTier> tiers,
                                                   std::span<const FailureKind> kinds,
                                                   const std::vector<int>& used) {
  std::vector<UsedTier> result;
  for (const int tier : used) result.push_back({tier, tiers[tier], 0});
  for (const FailureKind& kind : kinds) {
    const auto weakest = std::find_if(result.begin(), result.end(), [&](const UsedTier& u) {
      return u.tier >= kind.weakest_tier;
    });
    if (weakest == result.end()) return std::nullopt;
    weakest->rate += 1 / kind.mtbf_seconds;
  }
  return result;
}

double waste_of(const UsedTier& used, double work_seconds) {
  return used.costs.save_seconds / work_seconds +
         used.rate * (work_seconds / 2 + used.costs.restart_seconds);
}

// The best first interval for given multiples (of the first interval) and what it wastes.
struct Nested {
  double first_seconds = 0;
  double waste = kNever;
};

Nested nested(const std::vector<UsedTier>& used, const std::vector<int64_t>& every) {
  double saves = 0, losses = 0, shortest = 0, multiple = 1;
  for (size_t i = 0; i < used.size(); ++i) {
    multiple *= static_cast<double>(every[i]);
    saves += used[i].costs.save_seconds / multiple;
    losses += used[i].rate * multiple / 2;
    shortest = std::max(shortest, used[i].costs.shortest_interval_seconds / multiple);
  }
  Nested result{std::max(shortest, std::sqrt(saves / losses)), 0};
  multiple = 1;
  for (size_t i = 0; i < used.size(); ++i) {
    multiple *= static_cast<double>(every[i]);
    result.waste += waste_of(used[i], multiple * result.first_seconds);
  }
  return result;
}

// The multiples next to the ratios of the tiers' own best intervals, then improved one by one.
std::vector<int64_t> best_multiples(const std::vector<UsedTier>& used) {
  std::vector<int64_t> every(used.size(), 1);
  const auto alone = [&](size_t i) {
    const CheckpointTier& costs = used[i].costs;
    return std::max(costs.shortest_interval_seconds,
                    std::sqrt(2 * costs.save_seconds / used[i].rate));
  };
  for (size_t i = 1; i < used.size(); ++i) {
    every[i] = std::max<int64_t>(1, std::llround(alone(i) / alone(i - 1)));
  }
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t i = 1; i < used.size(); ++i) {
      // A factor as well as one more or less: where a multiple was cut to 1 the next ones are far
      // off.
      for (const int64_t candidate : {every[i] - 1, every[i] + 1, every[i] / 2, every[i] * 2}) {
        if (candidate < 1) continue;
        std::vector<int64_t> other = every;
        other[i] = candidate;
        if (nested(used, other).waste < nested(used, every).waste * (1 - 1e-12)) {
          every = other;
          improved = true;
        }
      }
    }
  }
  return every;
}

TierPlan plan_for(const std::vector<UsedTier>& used) {
  const std::vector<int64_t> every = best_multiples(used);
  const Nested best = nested(used, every);
  TierPlan plan{.waste = best.waste};
  double work_seconds = best.first_seconds;
  for (size_t i = 0; i < used.size(); ++i) {
    work_seconds *= static_cast<double>(every[i]);
    plan.intervals.push_back({used[i].tier, work_seconds, every[i]});
  }
  return plan;
}

// What one tier does in a plan, as a sentence.
std::string reason_for(int tier, std::span<const CheckpointTier> tiers, const TierPlan& plan,
                       const std::vector<UsedTier>& used) {
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i].tier != tier) continue;
    const double work = plan.intervals[i].work_seconds;
    return absl::StrFormat(
        "%s: a save every %.1f s of work; saves cost %.3f %%, "
        "its failures (one in %.0f s) %.3f %%",
        tiers[tier].name, work, 100 * tiers[tier].save_seconds / work, 1 / used[i].rate,
        100 * used[i].rate * (work / 2 + tiers[tier].restart_seconds));
  }
  return absl::StrFormat("%s: not used, saves of %.1f s cost more than they keep", tiers[tier].name,
                         tiers[tier].save_seconds);
}

void check_input(std::span<const CheckpointTier> tiers, std::span<const FailureKind> kinds) {
  CHECK(!tiers.empty() && tiers.size() <= kTiersMax && !kinds.empty())
      << tiers.size() << " tiers, " << kinds.size() << " kinds";
  for (const CheckpointTier& tier : tiers) {
    CHECK(tier.save_seconds >= 0 && tier.restart_seconds >= 0 && tier.shortest_interval_seconds > 0)
        << tier.name;
  }
  for (const FailureKind& kind : kinds)
    CHECK(kind.mtbf_seconds > 0 && kind.weakest_tier >= 0) << kind.name;
}

}  // namespace

double tier_waste(std::span<const CheckpointTier> tiers, std::span<const FailureKind> kinds,
                  std::span<const TierInterval> intervals) {
  std::vector<int> tiers_used;
  for (const TierInterval& interval : intervals) tiers_used.push_back(interval.tier);
  const auto used = with_failures(tiers, kinds, tiers_used);
  CHECK(used) << "a kind of failure is survived by no tier in use";
  double waste = 0;
  for (size_t i = 0; i < intervals.size(); ++i)
    waste += waste_of((*used)[i], intervals[i].work_seconds);
  return waste;
}

std::variant<TierPlan, TierPlanInfeasible> plan_tier_intervals(
    std::span<const CheckpointTier> tiers, std::span<const FailureKind> kinds) {
  check_input(tiers, kinds);
  const int count = static_cast<int>(tiers.size());
  for (const FailureKind& kind : kinds) {
    if (kind.weakest_tier < count) continue;
    return TierPlanInfeasible{absl::StrFormat("no tier survives the failure '%s'", kind.name)};
  }
  TierPlan best{.waste = kNever};
  std::vector<UsedTier> best_used;
  for (int subset = 1; subset < 1 << count; ++subset) {
    std::vector<int> tiers_used;
    for (int tier = 0; tier < count; ++tier) {
      if (subset >> tier & 1) tiers_used.push_back(tier);
    }
    const auto used = with_failures(tiers, kinds, tiers_used);
    // A tier to which no failure falls only costs.
    if (!used || std::ranges::any_of(*used, [](const UsedTier& u) { return u.rate == 0; }))
      continue;
    TierPlan plan = plan_for(*used);
    if (plan.waste >= best.waste) continue;
    best = std::move(plan);
    best_used = *used;
  }
  for (int tier = 0; tier < count; ++tier)
    best.reasons.push_back(reason_for(tier, tiers, best, best_used));
  return best;
}

}  // namespace evermoe
