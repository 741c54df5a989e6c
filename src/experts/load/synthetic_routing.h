// Routing that is drawn and not learned, for studies of skewed popularity: which experts a token
// goes to, as a pure function of (seed, step, layer, micro-batch, token). So it is the same on
// whatever lane a micro-batch runs, and when a step is run again.
//
// The popularity p of a layer's experts comes from a symmetric Dirichlet law, as in MoEtion's
// appendix on skewed popularity; the token's experts are drawn by p, one after the other and never
// the same twice. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace evermoe {

struct SyntheticRouting {
  uint64_t seed = 0;
  int experts = 0;
  int top_k = 1;  // at most `experts`
  // The expected skew of p (normalised_hhi()), 0 <= skew < 1; 0: p is uniform. Of what tokens
  // choose it is less where top_k > 1: no expert can have more than 1 / top_k of the choices.
  double skew = 0;
  int64_t drift_steps = 0;  // p is drawn anew every so many steps; 0: never
};

// p of a layer in the step that begins at `step`: `experts` positive numbers that add up to 1.
// Before Step(0), as in evaluations: that of Step(0).
std::vector<double> synthetic_popularity(const SyntheticRouting& routing, int layer, Step step);

// [tokens * top_k]: the choices of token t are at t * top_k. `popularity` is the one above.
std::vector<int64_t> synthetic_choices(const SyntheticRouting& routing, int layer, Step step,
                                       MicroBatch micro_batch, int64_t tokens,
                                       std::span<const double> popularity);

// The normalised Herfindahl-Hirschman index of a layer's loads, S = (sum p_e^2 - 1/E) / (1 - 1/E):
// 0 where all experts get as much, 1 where one gets all. 0 for a single expert, and without tokens.
double normalised_hhi(std::span<const int64_t> loads);

}  // namespace evermoe
