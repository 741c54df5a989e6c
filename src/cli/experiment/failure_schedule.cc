#include "cli/experiment/failure_schedule.h"

#include <cmath>
#include <numeric>

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
                                       const std::vector<double>& gaps, uint64_t seed, int ranks,
                                       double horizon_steps) {
  CHECK(ranks >= 1 && horizon_steps >= 1);
  RandomStream lives(seed, kGapStream), victims(seed, kVictimStream);
  const double mean =
      gaps.empty() ? 0 : std::accumulate(gaps.begin(), gaps.end(), 0.0) / double(gaps.size());
  const double scale = process.mtbf_steps / std::tgamma(1 + 1 / process.shape);
  size_t next = gaps.empty() ? 0 : size_t(lives.below(static_cast<int>(gaps.size())));
  std::vector<FailureTime> failures;
  double now = 0;
  while (static_cast<int64_t>(failures.size()) < kFaultsMax) {
    now += gaps.empty() ? lives.weibull(process.shape, scale)
                        : gaps[next++ % gaps.size()] / mean * process.mtbf_steps;
    if (now > horizon_steps) break;
    failures.push_back({now, victims.below(ranks)});
  }
  return failures;
}

FaultScript faults_of(const std::vector<FailureTime>& failures, const Topology& topology,
                      double step_seconds, double begin_seconds) {
  FaultScript script;
  for (const FailureTime& failure : failures) {
    const Role role = topology.role_of(Rank(failure.victim));
    Fault fault{.index = static_cast<int>(script.faults.size()), .kind = FaultKind::kKillWorker};
    fault.role = {role.stage, role.lane};
    fault.after_seconds = begin_seconds + failure.steps * step_seconds;
    script.faults.push_back(fault);
  }
  return script;
}

}  // namespace evermoe
