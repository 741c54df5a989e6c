#include "control/hosting/lanes_history.h"

#include <algorithm>
#include <utility>

namespace evermoe {

bool LanesHistory::on_change(LanesChanged change) {
  if (change.step < Step(0)) {
    next_ = std::move(change);
    return false;
  }
  const bool is_known = std::ranges::any_of(changes_, [&](const LanesChanged& old) {
    return old.step == change.step && old.lanes == change.lanes;
  });
  if (is_known) return false;
  std::erase_if(changes_, [&](const LanesChanged& old) { return old.step >= change.step; });
  changes_.push_back(std::move(change));
  return true;
}

bool LanesHistory::on_resumed(Step step) {
  const size_t gone =
      std::erase_if(changes_, [&](const LanesChanged& old) { return old.step > step; });
  if (!next_) return gone > 0;
  LanesChanged change = *std::exchange(next_, std::nullopt);
  change.step = step;
  if (!changes_.empty() && changes_.back().lanes == change.lanes) return gone > 0;
  return on_change(std::move(change)) || gone > 0;
}

}  // namespace evermoe
