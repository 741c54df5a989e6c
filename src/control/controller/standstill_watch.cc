#include "control/controller/standstill_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/controller/stalls/lateness.h"

namespace evermoe {

void StandstillWatch::begin_period(absl::Duration now) {
  moved_ = now;
  granted_ = absl::ZeroDuration();
  ++period_;
}

void StandstillWatch::on_commit(absl::Duration now) {
  if (was_commit_) {
    pace_.add(now - moved_);
    doublings_ = 0;
  }
  begin_period(now);
  was_commit_ = true;
  end_probe();
}

void StandstillWatch::on_milestone(absl::Duration now) {
  begin_period(now);
  was_commit_ = false;
}

void StandstillWatch::on_stop() {
  was_commit_ = false;
  probe_due_.reset();
}

void StandstillWatch::on_plan(absl::Duration now) {
  begin_period(now);
  if (std::exchange(is_probing_, false)) probe_due_ = now + probe_time();
}

void StandstillWatch::on_nobody_in_sight(absl::Duration now) {
  on_milestone(now);
  if (probe_due_) probe_due_ = now + probe_time();
}

void StandstillWatch::end_probe() {
  probe_due_.reset();
  is_probing_ = false;
}

absl::Duration StandstillWatch::deadline(Commit newest, bool is_loading) const {
  if (probe_due_) return *probe_due_;
  return moved_ + limit(newest, is_loading) + granted_;
}

absl::Duration StandstillWatch::limit(Commit newest, bool is_loading) const {
  const absl::Duration limit = pace_.limit(options_.step_max) *
                               std::min(int64_t{1} << std::min(doublings_, 30), kPatienceMax);
  if (is_loading) return std::max(options_.load_max, limit);
  return limit * (does_more_than_steps(newest) ? options_.patience : 1);
}

StandstillDecision StandstillWatch::on_deadline(absl::Duration now, const StandstillState& job) {
  using Kind = StandstillDecision::Kind;
  if (!is_probe()) {
    std::vector<Rank> all;
    for (int32_t r = 0; r < job.roles.size(); ++r) all.emplace_back(r);
    if (grant_most_starved(all, job)) return {};
    probe();
    return {.kind = Kind::kProbe,
            .why = absl::StrCat("nothing has happened for ", absl::FormatDuration(now - moved_),
                                "; a step takes ", absl::FormatDuration(median_step()))};
  }
  std::vector<Rank> still = who_stands_still(job.topology, job.roles, job.view);
  if (grant_most_starved(still, job)) return {};
  end_probe();
  if (!still.empty())
    return {
        .kind = Kind::kReplace, .why = "hung: its stage does not move", .still = std::move(still)};
  on_all_moved();
  if (went_back_at_ != job.progress.furthest()) went_back_ = 0;
  went_back_at_ = job.progress.furthest();
  return {.kind = ++went_back_ > kBackInMemoryMax ? Kind::kRestart : Kind::kGoBack,
          .why = "the job stands still though all its workers move"};
}

// The slowest of them decides how long the job takes.
bool StandstillWatch::grant_most_starved(const std::vector<Rank>& waited_for,
                                         const StandstillState& job) {
  absl::Duration most;
  for (const Rank rank : waited_for)
    most = std::max(most, job.roles[rank].starvation.since(period_));
  return grant(most, job.progress.newest(), job.is_loading);
}

bool StandstillWatch::grant(absl::Duration starved, Commit newest, bool is_loading) {
  const absl::Duration had = probe_due_ ? probe_time() : limit(newest, is_loading);
  const absl::Duration more = std::min(starved, (kStallFactorMax - 1) * had - granted_);
  if (more < kStallTrifle) return false;
  granted_ += more;
  if (probe_due_) *probe_due_ += more;
  ++period_;
  return true;
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
  const std::vector<Rank>& still = stages.empty() ? ranks : stages;
  std::vector<Rank> hang;
  std::copy_if(still.begin(), still.end(), std::back_inserter(hang),
               [&](Rank rank) { return !roles[rank].waits; });
  return hang.empty() ? still : hang;
}

}  // namespace evermoe
