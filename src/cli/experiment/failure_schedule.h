// The failures that every strategy of an experiment meets, drawn from one process and one seed.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/experiment/experiment_file.h"
#include "env/files.h"
#include "faults/fault.h"
#include "parallel/topology.h"

namespace evermoe {

struct FailureTime {
  double steps = 0;  // after the job's first step began, as long as so many undisturbed steps take
  std::vector<int> victims;  // the rank whose worker is killed, or the nodes, ascending
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

// As faults by time: they go on while the job recovers. `begin_seconds`: from the start of the job
// until its first step. Victims are nodes where there are several, else ranks.
FaultScript faults_of(const std::vector<FailureTime>& failures, const Topology& topology,
                      double step_seconds, double begin_seconds);

}  // namespace evermoe
