// LOSSY: how old the saved states of a layer's experts are, for partial-expert checkpoints of a
// long run.
//
// The rule is protection/partial_experts/partial_experts.h's: each save holds the K experts whose
// last save is oldest; a failure restarts at the last save C, and an expert that comes back from s
// <= C has lost what it learned in (max(s, B), C], B the restart before. Tokens are taken to be
// spread evenly over the experts, so what is lost is measured in steps: 1 is all tokens of one
// step. Time moves by failures, not by steps.
//
// With experts in memory, those of nodes that live come back from the images of the last save, or
// older ones where a save copies some experts only.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "planner/simulate/run_strategy.h"

namespace evermoe {

class LossyAges {
 public:
  // All experts are saved at step 0. REQUIRES: 1 <= K <= experts, 0 <= in_memory <= experts.
  explicit LossyAges(const LossyExperts& lossy);

  // A failure of `lost_share` of the nodes goes back to the save at `committed`, a multiple of
  // `every` (> 0) at or after the one before. Returns the steps lost.
  double fault(int64_t committed, int64_t every, double lost_share = 1);

 private:
  // When each expert was saved last, oldest first.
  struct Saves {
    int at_once = 1;
    std::deque<int64_t> at;
    double mean_age(int64_t committed, int64_t every, int64_t restart);
  };
  Saves storage_;
  std::optional<Saves> memory_;
  int64_t restart_ = 0;  // B
};

// The mean of fault() where failures are rarer than ceil(E / K) saves: I (E/K - 1) / 2 for K that
// divides E.
double lossy_steps_per_fault(const LossyExperts& lossy, int64_t every);

}  // namespace evermoe
