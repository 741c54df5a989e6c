#include "planner/simulate/lossy_ages.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {

LossyAges::LossyAges(const LossyExperts& lossy)
    : lossy_(lossy), saved_at_(static_cast<size_t>(std::max(lossy.experts, 0)), 0) {
  CHECK(1 <= lossy.saved && lossy.saved <= lossy.experts) << lossy.saved << " of " << lossy.experts;
}

double LossyAges::fault(int64_t committed, int64_t every) {
  CHECK(every > 0 && committed >= restart_ && committed % every == 0) << committed;
  // After so many saves nothing older is left.
  const int64_t round = (lossy_.experts + lossy_.saved - 1) / lossy_.saved;
  const int64_t first = std::max(restart_ + every, committed - (round - 1) * every);
  for (int64_t step = first; step <= committed; step += every) {
    for (int i = 0; i < lossy_.saved; ++i) {
      saved_at_.pop_front();
      saved_at_.push_back(step);
    }
  }
  double lost = 0;
  for (const int64_t saved : saved_at_)
    lost += static_cast<double>(committed - std::max(saved, restart_));
  restart_ = committed;
  return lost / lossy_.experts;
}

double lossy_steps_per_fault(const LossyExperts& lossy, int64_t every) {
  double ages = 0;
  for (int e = 0; e < lossy.experts; ++e) ages += e / lossy.saved;
  return ages / lossy.experts * static_cast<double>(every);
}

}  // namespace evermoe
