// How often to save to each of several tiers, where failures differ in what they destroy.
//
// Tiers go from the weakest (a peer's memory: fast, lost with the peer) to the strongest (remote
// storage). A kind of failure is survived by some tier and all stronger ones; after it, training
// goes back to the newest save of the weakest tier that is in use and survives it. To first order
// in the failure rates the share of time lost is
//
//   sum over used tiers t of  C_t / tau_t + L_t (tau_t / 2 + R_t)
//
// with L_t the summed rates of the failures that fall to tier t. Alone that is least at Young's
// tau_t = sqrt(2 C_t / L_t). Saves nest: a stronger tier saves at every n-th save of the one below,
// and C_t is what it adds. A tier whose failures are too rare for its cost is left out, and its
// failures fall to the next stronger one. All subsets of tiers and the neighbouring multiples are
// compared. tier_intervals_test.cc holds the formula against the exact expectation (a linear system
// over the saves of a pattern), which it meets within 3 % of the waste while the waste is below 10
// %.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace evermoe {

struct CheckpointTier {
  std::string name;
  double save_seconds = 0;     // C: by which training stands still for a save
  double restart_seconds = 0;  // R: detect, restart and load from here
  // The shortest work between two saves: how long one takes in the background, or one step. > 0.
  double shortest_interval_seconds = 0;
};

struct FailureKind {
  std::string name;
  double mtbf_seconds = 0;
  int weakest_tier = 0;  // index of the weakest tier that survives it
};

struct TierInterval {
  int tier = 0;
  double work_seconds = 0;  // between saves to this tier
  int64_t every = 1;        // so many saves of the used tier below; 1 for the weakest used one
};

struct TierPlan {
  std::vector<TierInterval> intervals;  // of the tiers in use, weakest first
  double waste = 0;                     // expected share of time lost, first order
  std::vector<std::string> reasons;     // one sentence per tier, used or not
};

// Some kind of failure is survived by no tier.
struct TierPlanInfeasible {
  std::string reason;
};

// The waste of given intervals by the formula above; `intervals` weakest first.
double tier_waste(std::span<const CheckpointTier> tiers, std::span<const FailureKind> kinds,
                  std::span<const TierInterval> intervals);

// REQUIRES: 1 to kTiersMax tiers and at least one kind; positive MTBF and shortest intervals.
inline constexpr int kTiersMax = 8;
std::variant<TierPlan, TierPlanInfeasible> plan_tier_intervals(
    std::span<const CheckpointTier> tiers, std::span<const FailureKind> kinds);

}  // namespace evermoe
