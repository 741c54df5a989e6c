// What a job will do on a cluster, protected as its configuration says: expected, not planned.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "planner/cost/protection_costs.h"
#include "planner/failures/failure_trace.h"
#include "planner/plan/plan_input.h"
#include "planner/simulate/estimate.h"

namespace evermoe {

struct RunForecast {
  std::string model;
  ClusterSpec cluster;
  JobLayout layout;
  StepForecast step;
  std::string batch;    // who chose it
  std::string missing;  // what the runtime lacks for it; empty if it runs today
  PricedProtection priced;
  double job_mtbf_seconds = 0;
  double simulated_seconds = 0;  // per run
  RunEstimates estimates;
  std::vector<RunSpan> first_run;  // what the first of the runs did
  double tokens_per_second = 0;    // expected, failures included
};

struct ForecastOptions {
  int simulated_runs = 16;
  uint64_t first_seed = 1;
  NodeReplacement replacement = NodeReplacement::kStandby;
  // Played once from its start to its end, instead of drawing from the cluster's law (which still
  // decides what is chosen, such as a window). Spares are the trace's nodes beyond the job's.
  const FailureTrace* trace = nullptr;
};

// What [protection] and [checkpoint] cost the job on the cluster. A window that is to be chosen is
// planned.
Priced price_configured(const JobProfile& job, const ClusterSpec& cluster,
                        const ProtectionConfig& protection, const CheckpointConfig& checkpoint);

// Errors as of plan_step(); InvalidInput for a trace that never has as many nodes at once as the
// job needs; NoCapacity if what is configured does not fit, with the reason.
absl::StatusOr<RunForecast> forecast_run(const PlannedModel& model,
                                         const ProtectionConfig& protection,
                                         const CheckpointConfig& checkpoint,
                                         const ClusterSpec& cluster,
                                         const ForecastOptions& options);

std::string to_text(const RunForecast& forecast);
// One JSON object, numbers in SI units.
std::string to_json(const RunForecast& forecast);

}  // namespace evermoe
