#include "control/hosting/lanes_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace evermoe {
namespace {

TrainedOn steps_and_lanes(const std::vector<LanesChanged>& changes) {
  TrainedOn all;
  for (const LanesChanged& change : changes) all.push_back({change.step, change.lanes});
  return all;
}

}  // namespace

// Whether so many trained then.
bool LanesHistory::is_in_force(const LanesChanged& change) const {
  const auto next = std::ranges::upper_bound(changes_, change.step, {}, &LanesChanged::step);
  return next != changes_.begin() && std::prev(next)->lanes == change.lanes;
}

bool LanesHistory::on_change(LanesChanged change) {
  if (change.step < Step(0)) {
    next_ = std::move(change);
    return false;
  }
  if (std::exchange(change.is_base, false)) {
    next_.reset();  // it has come, or will not
    if (is_in_force(change)) return false;
  }
  const bool is_known = std::ranges::any_of(changes_, [&](const LanesChanged& old) {
    return old.step == change.step && old.lanes == change.lanes;
  });
  if (is_known) return false;
  std::erase_if(changes_, [&](const LanesChanged& old) { return old.step >= change.step; });
  changes_.push_back(std::move(change));
  return true;
}

// Why they changed the checkpoint does not say; nor, if it is old, what was before it knew.
void LanesHistory::take(const TrainedOn& trained_on) {
  std::vector<LanesChanged> told = std::exchange(changes_, {});
  std::ranges::copy_if(told, std::back_inserter(changes_),
                       [&](const LanesChanged& old) { return old.step < trained_on.front().step; });
  for (const TrainedLanes& one : trained_on) {
    const auto known = std::ranges::find_if(told, [&](const LanesChanged& old) {
      return old.step == one.step && old.lanes == one.lanes;
    });
    if (known != told.end())
      changes_.push_back(std::move(*known));
    else
      changes_.push_back({.step = one.step, .lanes = one.lanes, .cause = "by the checkpoint"});
  }
}

void LanesHistory::follow_checkpoint(Step step, const TrainedOn& trained_on) {
  std::erase_if(changes_, [&](const LanesChanged& old) { return old.step > step; });
  if (!trained_on.empty()) take(trained_on);
}

bool LanesHistory::on_resumed(Step step, const TrainedOn& trained_on) {
  const auto before = steps_and_lanes(changes_);
  std::optional<LanesChanged> here = std::exchange(next_, std::nullopt);
  const auto known = std::ranges::find(changes_, step, &LanesChanged::step);
  if (!here && known != changes_.end()) here = *known;  // from another rank
  follow_checkpoint(step, trained_on);
  if (here) {
    here->step = step;
    const bool goes_on = !changes_.empty() && changes_.back().lanes == here->lanes;
    if (!goes_on) on_change(*std::move(here));
  }
  return steps_and_lanes(changes_) != before;
}

}  // namespace evermoe
