#include "control/controller/standstill_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace evermoe {

void StandstillWatch::on_commit(absl::Duration now) {
  if (was_commit_) pace_.add(now - moved_);
  moved_ = now;
  was_commit_ = true;
  end_probe();
}

void StandstillWatch::on_milestone(absl::Duration now) {
  moved_ = now;
  was_commit_ = false;
}

void StandstillWatch::on_stop() {
  was_commit_ = false;
  probe_due_.reset();
}

void StandstillWatch::on_plan(absl::Duration now) {
  moved_ = now;
  if (std::exchange(is_probing_, false))
    probe_due_ = now + std::max(options_.probe_min, pace_.median());
}

void StandstillWatch::end_probe() {
  probe_due_.reset();
  is_probing_ = false;
}

absl::Duration StandstillWatch::deadline(Commit newest, bool is_loading) const {
  if (probe_due_) return *probe_due_;
  const absl::Duration limit = pace_.limit(options_.step_max);
  if (is_loading) return moved_ + std::max(options_.load_max, limit);
  return moved_ + limit * (does_more_than_steps(newest) ? options_.patience : 1);
}

// Before the first step nobody knows how long one takes.
bool StandstillWatch::does_more_than_steps(Commit newest) const {
  const Step step = step_of(newest);
  const auto is_due = [&](int64_t every) { return every > 0 && step.value % every == 0; };
  return pace_.median() == absl::ZeroDuration() || step >= options_.steps ||
         is_due(options_.evaluate_every_steps) || is_due(options_.checkpoint_every_steps);
}

std::vector<Rank> who_stands_still(const Topology& topology, const RoleTable& roles, View view) {
  std::vector<Rank> stages, ranks;
  const auto moves = [&](Rank rank) { return roles[rank].finished || roles[rank].entered == view; };
  for (int stage = 0; stage < topology.stages(); ++stage) {
    const std::vector<Rank> group = topology.stage_group(stage);
    if (std::none_of(group.begin(), group.end(), moves))
      stages.insert(stages.end(), group.begin(), group.end());
    std::copy_if(group.begin(), group.end(), std::back_inserter(ranks),
                 [&](Rank rank) { return !moves(rank); });
  }
  return stages.empty() ? ranks : stages;
}

}  // namespace evermoe
