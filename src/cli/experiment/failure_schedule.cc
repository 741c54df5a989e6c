#include "cli/experiment/failure_schedule.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "faults/fault_script.h"
#include "planner/failures/failure_trace.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

constexpr uint64_t kGapStream = 0, kVictimStream = 1;

// Places for nodes, in a trace whose names are never used again: who comes takes the lowest that is
// free.
class TracePlaces {
 public:
  explicit TracePlaces(const FailureTrace& trace) : place_of_(trace.nodes.size(), -1) {
    for (size_t node = 0; node < trace.nodes.size(); ++node) {
      if (trace.up_at_start[node]) take(static_cast<int>(node));
    }
  }

  // So many of the places that are taken now, in a random order.
  absl::StatusOr<std::vector<int>> draw(uint64_t seed, int count, const std::string& origin) const {
    std::vector<int> places;
    for (size_t place = 0; place < taken_.size(); ++place) {
      if (taken_[place]) places.push_back(static_cast<int>(place));
    }
    if (std::ssize(places) < count)
      return InvalidInput(absl::StrCat(origin, ": found ", places.size(),
                                       " nodes at the start, allowed: at least run.nodes (", count,
                                       ")"));
    RandomStream choices(seed, kVictimStream);
    for (int i = 0; i < count; ++i) {
      const auto left = static_cast<int>(places.size()) - i;
      std::swap(places[static_cast<size_t>(i)],
                places[static_cast<size_t>(i + choices.below(left))]);
    }
    places.resize(static_cast<size_t>(count));
    return places;
  }

  // The places where nodes come or go in it.
  std::vector<int> follow(const FailureTrace::Event& event) {
    std::vector<int> places;
    for (const int node : event.nodes) {
      const int before = place_of_[static_cast<size_t>(node)];
      if (event.kind == AvailabilityEvent::Kind::kUp) {
        if (before < 0) places.push_back(take(node));
      } else if (before >= 0) {
        places.push_back(before);
        leave(node);
      }
    }
    return places;
  }

 private:
  int take(int node) {
    const auto free = std::ranges::find(taken_, false);
    const auto place = static_cast<int>(free - taken_.begin());
    if (free == taken_.end()) taken_.push_back(true);
    taken_[static_cast<size_t>(place)] = true;
    return place_of_[static_cast<size_t>(node)] = place;
  }
  void leave(int node) {
    int& place = place_of_[static_cast<size_t>(node)];
    taken_[static_cast<size_t>(place)] = false;
    place = -1;
  }

  std::vector<bool> taken_;    // by place
  std::vector<int> place_of_;  // by node; -1: it is not there
};

bool is_loss(const FailureTrace::Event& event) {
  return event.kind == AvailabilityEvent::Kind::kDown ||
         event.kind == AvailabilityEvent::Kind::kCrash;
}

}  // namespace

absl::StatusOr<std::vector<double>> loss_gaps(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const FailureTrace trace, load_failure_trace(files, path, kTraceNodesMax));
  std::vector<double> gaps;
  double last = -1;
  for (const FailureTrace::Event& event : trace.events) {
    if (!is_loss(event) || event.seconds == last) continue;
    if (last >= 0) gaps.push_back(event.seconds - last);
    last = event.seconds;
  }
  if (gaps.empty())
    return InvalidInput(absl::StrCat(path, ": found fewer than two losses, allowed: two or more"));
  return gaps;
}

std::vector<FailureTime> draw_failures(const FailureProcess& process,
                                       const std::vector<double>& gaps, uint64_t seed,
                                       int candidates, double horizon_steps) {
  CHECK(candidates >= process.lost_together && process.lost_together >= 1 && horizon_steps >= 1);
  RandomStream lives(seed, kGapStream), choices(seed, kVictimStream);
  const double mean =
      gaps.empty() ? 0 : std::accumulate(gaps.begin(), gaps.end(), 0.0) / double(gaps.size());
  const double scale = process.mtbf_steps / std::tgamma(1 + 1 / process.shape);
  size_t next = gaps.empty() ? 0 : size_t(lives.below(static_cast<int>(gaps.size())));
  std::vector<FailureTime> failures;
  double now = 0;
  int64_t victims = 0;
  while (victims + process.lost_together <= kFaultsMax) {
    now += gaps.empty() ? lives.weibull(process.shape, scale)
                        : gaps[next++ % gaps.size()] / mean * process.mtbf_steps;
    if (now > horizon_steps) break;
    std::set<int> hit;
    while (std::ssize(hit) < process.lost_together) hit.insert(choices.below(candidates));
    failures.push_back({now,
                        {hit.begin(), hit.end()},
                        process.lost_together > 1 ? FaultKind::kKillNode : FaultKind::kKillWorker});
    victims += process.lost_together;
  }
  return failures;
}

std::vector<FailureTime> draw_departures(const FailureProcess& process, uint64_t seed, int nodes,
                                         double horizon_steps) {
  CHECK(process.trace.empty() && nodes > process.lost_together && horizon_steps >= 1);
  RandomStream lives(seed, kGapStream), choices(seed, kVictimStream);
  const double scale = process.mtbf_steps / std::tgamma(1 + 1 / process.shape);
  std::vector<FailureTime> times;
  std::set<int> present;
  for (int node = 0; node < nodes; ++node) present.insert(node);
  std::deque<FailureTime> away;  // all stay as long
  const auto come_back = [&](double until) {
    while (!away.empty() && away.front().steps <= until) {
      times.push_back(std::move(away.front()));
      away.pop_front();
      present.insert(times.back().victims.begin(), times.back().victims.end());
    }
  };
  int64_t faults = 0;
  for (double now = lives.weibull(process.shape, scale); now <= horizon_steps;
       now += lives.weibull(process.shape, scale)) {
    come_back(now);
    if (std::ssize(present) <= process.lost_together) continue;
    if ((faults += 2 * process.lost_together) > kFaultsMax) break;
    std::set<int> hit;
    while (std::ssize(hit) < process.lost_together)
      hit.insert(*std::next(present.begin(), choices.below(static_cast<int>(present.size()))));
    for (const int node : hit) present.erase(node);
    times.push_back({now, {hit.begin(), hit.end()}, FaultKind::kLoseNode});
    if (process.back_after_steps > 0)
      away.push_back(
          {now + process.back_after_steps, times.back().victims, FaultKind::kReturnNode});
  }
  come_back(horizon_steps);
  return times;
}

absl::StatusOr<std::vector<FailureTime>> trace_departures(const FailureProcess& process,
                                                          const FailureTrace& trace, uint64_t seed,
                                                          int nodes) {
  TracePlaces places(trace);
  ASSIGN_OR_RETURN(const std::vector<int> own, places.draw(seed, nodes, process.trace));
  std::vector<FailureTime> times;
  int losses = 0;
  for (const FailureTrace::Event& event : trace.events) {
    const bool is_return = event.kind == AvailabilityEvent::Kind::kUp;
    if (event.kind == AvailabilityEvent::Kind::kCrash) continue;  // it stays
    FailureTime time{event.seconds, {}, is_return ? FaultKind::kReturnNode : FaultKind::kLoseNode};
    for (const int place : places.follow(event)) {
      const auto node = std::ranges::find(own, place);
      if (node != own.end()) time.victims.push_back(static_cast<int>(node - own.begin()));
    }
    std::ranges::sort(time.victims);
    losses += !is_return && !time.victims.empty();
    if (!time.victims.empty()) times.push_back(std::move(time));
  }
  if (losses == 0)
    return InvalidInput(absl::StrCat(process.trace, ": found no loss of the ", nodes,
                                     " nodes that seed ", seed, " draws, allowed: at least one"));
  const double scale = process.mtbf_steps * losses / trace.end_seconds;
  for (FailureTime& time : times) time.steps *= scale;
  return times;
}

FaultScript faults_of(const std::vector<FailureTime>& failures, const Topology& topology,
                      double step_seconds, double begin_seconds) {
  FaultScript script;
  for (const FailureTime& failure : failures) {
    for (const int victim : failure.victims) {
      Fault fault{.index = static_cast<int>(script.faults.size()), .kind = failure.kind};
      if (failure.kind == FaultKind::kKillWorker) {
        const Role role = topology.role_of(Rank(victim));
        fault.role = {role.stage, role.lane};
      } else {
        fault.node = victim;
      }
      fault.after_seconds = begin_seconds + failure.steps * step_seconds;
      script.faults.push_back(fault);
    }
  }
  return script;
}

}  // namespace evermoe
