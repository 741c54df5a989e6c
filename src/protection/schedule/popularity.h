// How much each expert is used, and when it has changed so much that the capture order should too.
//
// Definitions: MoEtion section 3.5 (hard) and appendix B (soft, time-decayed, capacity-aware).
// Every rank of a stage feeds the same reduced counts, so every rank holds the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace evermoe {

// Accumulates the steps it is given. A value: copy it to remember what an order was made from.
class Popularity {
 public:
  // `decay` is appendix B's alpha, the weight of the past in the time-decayed count.
  // REQUIRES: experts >= 1, 0 <= decay < 1.
  Popularity(int experts, double decay);

  // Tokens that chose each expert in one step; `gate_probability`, where known, is the sum of the
  // gate's probabilities for the expert over all tokens of the step.
  void add_step(std::span<const int64_t> tokens, std::span<const double> gate_probability = {});

  // All that was counted, as numbers; set_state() takes what state() of one with as many experts
  // gave. Exact for counts below 2^53.
  std::vector<double> state() const;
  void set_state(std::span<const double> state);
  size_t state_size() const { return 2 + 3 * tokens_.size(); }

  int64_t steps() const { return steps_; }
  const std::vector<int64_t>& tokens() const { return tokens_; }

  // Hard: sum of tokens.
  std::vector<double> hard() const { return {tokens_.begin(), tokens_.end()}; }
  // Soft: sum of gate probabilities. REQUIRES: every step came with them.
  const std::vector<double>& soft() const;
  // Time-decayed: A(t) = alpha A(t - 1) + (1 - alpha) tokens(t), A(0) = 0.
  const std::vector<double>& decayed() const { return decayed_; }

 private:
  double decay_;
  int64_t steps_ = 0;
  int64_t steps_with_probability_ = 0;
  std::vector<int64_t> tokens_;
  std::vector<double> probability_;
  std::vector<double> decayed_;
};

// Capacity-aware: popularity over the tokens an expert can take per batch. REQUIRES: capacity > 0.
std::vector<double> capacity_normalized(std::span<const double> popularity,
                                        std::span<const double> capacity);

struct ReorderOptions {
  double experts_percent = 25;  // at least so many of the experts
  double change_percent = 10;   // have changed by more than this
};

struct ReorderDecision {
  bool reorder = false;
  int changed = 0;  // experts
  std::string reason;
};

// Whether popularity has moved enough since `then` (of any kind above, the same for both).
// An expert's frequency is its share of the sum. The paper does not say whether its 10 % is
// relative or absolute; here it is relative to the expert's own former frequency, since among 64
// experts none may ever reach 10 points. An expert that was never used has changed as soon as it is
// used. Act on it at a window's end only: within a window the order is what the earlier steps
// captured by.
ReorderDecision should_reorder(std::span<const double> then, std::span<const double> now,
                               const ReorderOptions& options);

}  // namespace evermoe
