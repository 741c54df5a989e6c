#include "control/controller/stragglers/straggler_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "control/controller/stragglers/robust_statistics.h"

namespace evermoe {
namespace {

// So many times for_steps of a role are kept, and decide where ratios spread widely.
constexpr size_t kPast = 5;
// Errors of a median that noise does not explain: once in millions of looks.
constexpr double kErrorsToFind = 6;
constexpr double kErrorsToForget = 2;
// Of a step, that a straggler makes it longer.
constexpr double kShareMin = 0.02;

double seconds(const StepTime& time) { return absl::ToDoubleSeconds(time.computing); }

}  // namespace

StragglerWatch::StragglerWatch(const Topology& topology, StragglerOptions options)
    : topology_(topology), options_(options) {}

size_t StragglerWatch::kept() const { return kPast * static_cast<size_t>(options_.for_steps); }

void StragglerWatch::note(Rank rank, View since, const std::vector<StepTime>& times) {
  if (times.empty()) return;
  Watched& watched = watched_[rank];
  if (watched.since != since) watched = {.since = since};
  for (const StepTime& time : times) {
    if (time.computing <= absl::ZeroDuration() || time.computing == absl::InfiniteDuration())
      continue;
    // All have gone back: what comes now is compared with what comes now.
    if (watched.newest && time.step <= *watched.newest) {
      watched.times.clear();
      watched.ratios.clear();
    }
    watched.newest = time.step;
    watched.times.push_back(time);
  }
  while (watched.times.size() > kept()) watched.times.pop_front();
  has_news_ = true;
}

std::vector<StragglerWatch::Finding> StragglerWatch::look(absl::Duration step) {
  std::vector<Finding> findings;
  if (!std::exchange(has_news_, false)) return findings;
  Group lone;
  for (int stage = 0; stage < topology_.stages(); ++stage) {
    const Group lanes = present_lanes(stage);
    if (lanes.size() == 1) lone.push_back(lanes.front());
    if (lanes.size() > 1 && compare(lanes, /*is_lone=*/false)) learn_dependence(lanes);
  }
  if (lone.size() > 1) compare(lone, /*is_lone=*/true);
  for (auto& [rank, watched] : watched_) {
    if (std::exchange(watched.is_compared_anew, false)) judge(rank, watched, step, findings);
  }
  return findings;
}

// Those that have told of steps lately: not those that rest, or are gone.
StragglerWatch::Group StragglerWatch::present_lanes(int stage) {
  Group lanes;
  Step newest{-1};
  for (int lane = 0; lane < topology_.lanes(stage); ++lane) {
    const auto found = watched_.find(topology_.rank_of({stage, lane}));
    if (found == watched_.end() || !found->second.newest) continue;
    lanes.emplace_back(found->first, &found->second);
    newest = std::max(newest, *found->second.newest);
  }
  std::erase_if(lanes, [&](const auto& lane) {
    return lane.second->newest->value + options_.for_steps <= newest.value;
  });
  return lanes;
}

bool StragglerWatch::compare(const Group& group, bool is_lone) {
  bool has_news = false;
  const auto has_none = [](const auto& one) { return one.second->times.empty(); };
  while (std::ranges::none_of(group, has_none)) {
    Step step{-1};
    for (const auto& [rank, watched] : group) step = std::max(step, watched->times.front().step);
    bool is_common = true;
    for (const auto& [rank, watched] : group) {
      while (!watched->times.empty() && watched->times.front().step < step)
        watched->times.pop_front();
      is_common = is_common && !watched->times.empty() && watched->times.front().step == step;
    }
    if (is_common) compare_step(group, is_lone);
    has_news = has_news || is_common;
  }
  return has_news;
}

void StragglerWatch::learn_dependence(const Group& group) const {
  std::vector<std::vector<WorkAndTime>> by_role;
  for (const auto& [rank, watched] : group)
    by_role.emplace_back(watched->ratios.begin(), watched->ratios.end());
  const WorkDependence dependence = work_dependence(by_role);
  for (const auto& [rank, watched] : group) watched->dependence = dependence;
}

void StragglerWatch::compare_step(const Group& group, bool is_lone) {
  std::vector<double> times, works;
  bool is_known = true;
  for (const auto& [rank, watched] : group) {
    const StepTime time = watched->times.front();
    watched->times.pop_front();
    double value = seconds(time);
    watched->recent.push_back(value);
    if (std::ssize(watched->recent) > options_.for_steps) watched->recent.pop_front();
    watched->is_compared_anew = true;
    if (is_lone) {
      is_known = take_usual(*watched) && is_known;
      if (!watched->slowness) watched->past.push_back(value);
      if (watched->past.size() > kept()) watched->past.pop_front();
      value /= watched->usual.value_or(1);
    }
    times.push_back(value);
    works.push_back(is_lone || time.work <= 0 ? 1 : time.work);
    watched->newest_compared = time.step;
  }
  const std::vector<double> of_times = ratios_to_others(times), of_works = ratios_to_others(works);
  for (size_t i = 0; i < group.size(); ++i) {
    std::deque<WorkAndTime>& ratios = group[i].second->ratios;
    ratios.push_back({std::log(of_works[i]), std::log(of_times[i])});
    if (!is_known) ratios.clear();
    if (ratios.size() > kept()) ratios.pop_front();
  }
}

// While it is slow that is not usual. False: too little is known of it, as of one that was compared
// with other lanes so far.
bool StragglerWatch::take_usual(Watched& watched) const {
  if (watched.slowness) return watched.usual.has_value();
  const std::ptrdiff_t recent = options_.for_steps;
  if (std::ssize(watched.past) < 2 * recent) return false;
  watched.usual = median({watched.past.begin(), watched.past.end() - recent});
  return true;
}

// Of all steps that are kept, oldest first.
std::vector<double> StragglerWatch::ratios_without_work(const Watched& watched) const {
  std::vector<double> works, ratios;
  for (const WorkAndTime& one : watched.ratios) works.push_back(one.work);
  const double usual_work = median(std::move(works));
  for (const WorkAndTime& one : watched.ratios)
    ratios.push_back(std::exp(watched.dependence.without_work(one, usual_work)));
  return ratios;
}

void StragglerWatch::judge(Rank rank, Watched& watched, absl::Duration step,
                           std::vector<Finding>& findings) const {
  const auto steps = static_cast<std::ptrdiff_t>(options_.for_steps);
  if (std::ssize(watched.ratios) < steps) return;
  const std::vector<double> ratios = ratios_without_work(watched);
  const auto last = [&](std::ptrdiff_t count, std::ptrdiff_t skipped = 0) {
    return std::vector<double>(ratios.end() - count, ratios.end() - skipped);
  };
  const bool was_slow = watched.slowness.has_value();
  bool is_slow = was_slow;
  double factor = median(last(steps));
  const double middle = (1 + options_.slower_than) / 2;
  if (was_slow) {
    const double error = error_of_median(spread(last(steps)), steps);
    is_slow = factor >= middle || factor + kErrorsToForget * error >= options_.slower_than;
  } else if (median(last(steps / 2)) >= middle && median(last(steps, steps / 2)) >= middle) {
    // That of few steps says little of itself; and that from step to step is as large as before.
    const double usual_spread = spread_of_neighbours(ratios);
    for (std::ptrdiff_t count = steps; count <= std::ssize(ratios) && !is_slow; count += steps) {
      const std::vector<double> those = last(count);
      factor = median(those);
      const double error = error_of_median(std::max(spread(those), usual_spread), count);
      is_slow = factor >= options_.slower_than && factor - kErrorsToFind * error >= 1;
    }
  }
  const absl::Duration usual =
      absl::Seconds(median({watched.recent.begin(), watched.recent.end()}));
  const absl::Duration excess = usual * (1 - 1 / factor);
  if (!was_slow && excess < kShareMin * step) is_slow = false;
  watched.slowness.reset();
  if (is_slow) watched.slowness = {factor, excess};
  if (is_slow != was_slow) findings.push_back({rank, is_slow, factor, watched.newest_compared});
}

std::optional<StragglerWatch::Slowness> StragglerWatch::slowness(Rank rank) const {
  const auto found = watched_.find(rank);
  return found == watched_.end() ? std::nullopt : found->second.slowness;
}

}  // namespace evermoe
