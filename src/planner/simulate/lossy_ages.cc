#include "planner/simulate/lossy_ages.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {

LossyAges::LossyAges(const LossyExperts& lossy) {
  CHECK(1 <= lossy.saved && lossy.saved <= lossy.experts) << lossy.saved << " of " << lossy.experts;
  CHECK(0 <= lossy.in_memory && lossy.in_memory <= lossy.experts) << lossy.in_memory;
  const std::deque<int64_t> at(static_cast<size_t>(lossy.experts), 0);
  storage_ = {lossy.saved, at};
  if (lossy.in_memory > 0) memory_ = {lossy.in_memory, at};
}

double LossyAges::Saves::mean_age(int64_t committed, int64_t every, int64_t restart) {
  const auto experts = std::ssize(at);
  // After so many saves nothing older is left.
  const int64_t round = (experts + at_once - 1) / at_once;
  const int64_t first = std::max(restart + every, committed - (round - 1) * every);
  for (int64_t step = first; step <= committed; step += every) {
    for (int i = 0; i < at_once; ++i) {
      at.pop_front();
      at.push_back(step);
    }
  }
  double lost = 0;
  for (const int64_t saved : at) lost += static_cast<double>(committed - std::max(saved, restart));
  return lost / static_cast<double>(experts);
}

double LossyAges::fault(int64_t committed, int64_t every, double lost_share) {
  CHECK(every > 0 && committed >= restart_ && committed % every == 0) << committed;
  double lost = storage_.mean_age(committed, every, restart_);
  if (memory_)
    lost = lost_share * lost + (1 - lost_share) * memory_->mean_age(committed, every, restart_);
  restart_ = committed;
  return lost;
}

double lossy_steps_per_fault(const LossyExperts& lossy, int64_t every) {
  double ages = 0;
  for (int e = 0; e < lossy.experts; ++e) ages += e / lossy.saved;
  return ages / lossy.experts * static_cast<double>(every);
}

}  // namespace evermoe
