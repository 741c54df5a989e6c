#include "protection/schedule/popularity.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace evermoe {

Popularity::Popularity(int experts, double decay)
    : decay_(decay), tokens_(experts, 0), probability_(experts, 0), decayed_(experts, 0) {
  CHECK(experts >= 1 && 0 <= decay && decay < 1) << experts << " experts, decay " << decay;
}

void Popularity::add_step(std::span<const int64_t> tokens,
                          std::span<const double> gate_probability) {
  CHECK(tokens.size() == tokens_.size())
      << tokens.size() << " counts for " << tokens_.size() << " experts";
  CHECK(gate_probability.empty() || gate_probability.size() == tokens_.size());
  ++steps_;
  if (!gate_probability.empty()) ++steps_with_probability_;
  for (size_t e = 0; e < tokens.size(); ++e) {
    CHECK(tokens[e] >= 0) << "expert " << e << ": " << tokens[e] << " tokens";
    tokens_[e] += tokens[e];
    decayed_[e] = decay_ * decayed_[e] + (1 - decay_) * static_cast<double>(tokens[e]);
    if (!gate_probability.empty()) probability_[e] += gate_probability[e];
  }
}

std::vector<double> Popularity::state() const {
  std::vector<double> state{static_cast<double>(steps_),
                            static_cast<double>(steps_with_probability_)};
  state.insert(state.end(), tokens_.begin(), tokens_.end());
  state.insert(state.end(), probability_.begin(), probability_.end());
  state.insert(state.end(), decayed_.begin(), decayed_.end());
  return state;
}

void Popularity::set_state(std::span<const double> state) {
  CHECK(state.size() == state_size())
      << state.size() << " numbers for " << tokens_.size() << " experts";
  steps_ = static_cast<int64_t>(state[0]);
  steps_with_probability_ = static_cast<int64_t>(state[1]);
  const size_t experts = tokens_.size();
  for (size_t e = 0; e < experts; ++e) {
    tokens_[e] = static_cast<int64_t>(state[2 + e]);
    probability_[e] = state[2 + experts + e];
    decayed_[e] = state[2 + 2 * experts + e];
  }
}

const std::vector<double>& Popularity::soft() const {
  CHECK(steps_with_probability_ == steps_)
      << steps_ - steps_with_probability_ << " steps without probabilities";
  return probability_;
}

std::vector<double> capacity_normalized(std::span<const double> popularity,
                                        std::span<const double> capacity) {
  CHECK(popularity.size() == capacity.size());
  std::vector<double> normalized;
  for (size_t e = 0; e < popularity.size(); ++e) {
    CHECK(capacity[e] > 0) << "expert " << e;
    normalized.push_back(popularity[e] / capacity[e]);
  }
  return normalized;
}

ReorderDecision should_reorder(std::span<const double> then, std::span<const double> now,
                               const ReorderOptions& options) {
  CHECK(then.size() == now.size() && !now.empty());
  const double total_then = std::accumulate(then.begin(), then.end(), 0.0);
  const double total_now = std::accumulate(now.begin(), now.end(), 0.0);
  ReorderDecision decision;
  for (size_t e = 0; e < now.size() && total_now > 0; ++e) {
    // |now / total_now - then / total_then| > percent/100 then / total_then, without the divisions:
    // exact for token counts.
    const double former = total_then > 0 ? then[e] * total_now : 0;
    const double present = total_then > 0 ? now[e] * total_then : now[e];
    if (100 * std::abs(present - former) > options.change_percent * former) ++decision.changed;
  }
  const double experts = static_cast<double>(now.size());
  decision.reorder =
      decision.changed > 0 && 100 * decision.changed >= options.experts_percent * experts;
  decision.reason = absl::StrFormat(
      "%d of %d experts changed their share by more than %g %%, a new order needs %g %%",
      decision.changed, now.size(), options.change_percent, options.experts_percent);
  return decision;
}

}  // namespace evermoe
