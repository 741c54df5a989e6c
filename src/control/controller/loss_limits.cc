#include "control/controller/loss_limits.h"

#include <algorithm>

namespace evermoe {

void JobProgress::on_joined(Commit newest) {
  newest_ = std::max(newest_, newest);
  furthest_ = std::max(furthest_, newest_);
}

void JobProgress::on_restart(View view) {
  newest_ = Commit(-1);
  restarted_ = view;
}

bool JobProgress::on_commit(Commit newest) {
  const bool is_first = newest_ < Commit(0);
  newest_ = newest;
  if (newest > furthest_) {
    furthest_ = newest;
    first_ = Commit(-1);
    return true;
  }
  if (!is_first) return false;
  const bool began_later = first_ >= Commit(0) && newest > first_;
  first_ = newest;
  return began_later;
}

LossLimits::Restart LossLimits::count_failure(absl::Duration now) {
  ++failures_;
  const int before = failures_in_row_++;
  if (before >= options_.restarts_max) return {.is_allowed = false, .number = failures_in_row_};
  const absl::Duration delay =
      std::min(options_.backoff * (int64_t{1} << std::min(before, 30)), options_.backoff_max);
  start_at_ = now + delay;
  return {.is_allowed = true, .number = failures_in_row_, .delay = delay};
}

void LossLimits::on_plan() {
  has_planned_ = true;
  planned_ = failures_;
}

}  // namespace evermoe
