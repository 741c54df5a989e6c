// The failures that every strategy of an experiment meets, drawn from one process and one seed.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/experiment/experiment_file.h"
#include "env/files.h"
#include "faults/fault.h"
#include "parallel/topology.h"
#include "planner/failures/failure_trace.h"

namespace evermoe {

inline constexpr int kTraceNodesMax = 1 << 16;  // how many a trace may name

struct FailureTime {
  double steps = 0;  // after the job's first step began, as long as so many undisturbed steps take
  std::vector<int> victims;  // the rank whose worker is killed, or the nodes, ascending
  // Or kKillNode, kLoseNode, or kReturnNode: then they are there again.
  FaultKind kind = FaultKind::kKillWorker;
};

// Gaps between losses of a trace, in seconds, in order; a loss of several nodes at once is one.
// InvalidInput if the file is no trace or has fewer than two losses.
absl::StatusOr<std::vector<double>> loss_gaps(Files& files, const std::string& path);

// Failures up to `horizon_steps`, earliest first and at most faults/fault_script.h's kFaultsMax. A
// function of its arguments alone. Gaps are drawn from the Weibull law whose mean is mtbf_steps or,
// where `gaps` (of the trace) is not empty, are those, scaled to that mean, from a gap that the
// seed chooses and round and round. Each failure has process.lost_together different victims of the
// `candidates`, uniform. REQUIRES: horizon_steps >= 1, candidates >= process.lost_together.
std::vector<FailureTime> draw_failures(const FailureProcess& process,
                                       const std::vector<double>& gaps, uint64_t seed,
                                       int candidates, double horizon_steps);

// The same of nodes that are gone, of a law: victims are drawn among those that are there, one of
// which always stays.
std::vector<FailureTime> draw_departures(const FailureProcess& process, uint64_t seed, int nodes,
                                         double horizon_steps);

// The same of a trace, from its begin to its end, once. Whoever comes in it takes the place of one
// that has gone; the seed says which of the places that are taken at the start are the job's nodes.
// Scaled so that mtbf_steps lie between losses of these, on average. InvalidInput if the trace has
// fewer places, or no losses of these.
absl::StatusOr<std::vector<FailureTime>> trace_departures(const FailureProcess& process,
                                                          const FailureTrace& trace, uint64_t seed,
                                                          int nodes);

// As faults by time: they go on while the job recovers. `begin_seconds`: from the start of the job
// until its first step.
FaultScript faults_of(const std::vector<FailureTime>& failures, const Topology& topology,
                      double step_seconds, double begin_seconds);

}  // namespace evermoe
