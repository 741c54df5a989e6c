#include "cli/experiment/failure_schedule.h"

#include <cmath>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "faults/fault_script.h"
#include "planner/failures/failure_trace.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

constexpr uint64_t kGapStream = 0, kVictimStream = 1;
constexpr int kTraceNodesMax = 1 << 16;  // how many a trace may name

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
    failures.push_back({now, {hit.begin(), hit.end()}});
    victims += process.lost_together;
  }
  return failures;
}

FaultScript faults_of(const std::vector<FailureTime>& failures, const Topology& topology,
                      double step_seconds, double begin_seconds) {
  FaultScript script;
  for (const FailureTime& failure : failures) {
    const bool are_nodes = failure.victims.size() > 1;
    for (const int victim : failure.victims) {
      Fault fault{.index = static_cast<int>(script.faults.size()),
                  .kind = are_nodes ? FaultKind::kKillNode : FaultKind::kKillWorker};
      if (are_nodes) {
        fault.node = victim;
      } else {
        const Role role = topology.role_of(Rank(victim));
        fault.role = {role.stage, role.lane};
      }
      fault.after_seconds = begin_seconds + failure.steps * step_seconds;
      script.faults.push_back(fault);
    }
  }
  return script;
}

}  // namespace evermoe
