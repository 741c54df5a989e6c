// The best way to protect a job and to replace its nodes, and why.
//
// Every protection is priced (protection_costs.h), every priced one is simulated under the same
// failures, and the one that keeps most of all nodes, spares included, for training wins:
//
//   score = ETTR x nodes of the job / (nodes of the job + spares)
//
// Protections are compared with warm standbys first; then the winner's replacement is chosen: cold
// restarts, standbys in several numbers, or going on with fewer nodes (which live replicas are
// always tried with). LOSSY strategies take part only if the budget allows lost tokens, and say so.
// A job without any protection is simulated for comparison.
//
// The best may be a forecast only: `today` is the best of what the runtime can do
// (missing_in_runtime()), with its replacement chosen in the same way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/cost/protection_costs.h"
#include "planner/plan/expert_plan.h"
#include "planner/plan/plan_input.h"
#include "planner/simulate/estimate.h"

namespace evermoe {

struct PlanCandidate {
  PricedProtection priced;  // its strategy has the replacement
  int spares = 0;
  RunEstimates estimates;
  double score = 0;
  bool is_lossy() const { return priced.strategy.protection == StateProtection::kPartialExperts; }
  bool is_unprotected() const {
    return priced.strategy.protection == StateProtection::kDurable &&
           priced.strategy.save.every_steps == 0;
  }
  std::string missing;  // what the runtime lacks for it, the job's own wants included; empty if it
                        // runs today
  bool runs_today() const { return missing.empty(); }
};

struct ProtectionPlan {
  std::string model;
  ClusterSpec cluster;
  JobLayout layout;
  StepForecast step;
  std::string batch;        // who chose it
  std::string job_missing;  // what the runtime lacks for the job, however it is protected
  PlanBudget budget;
  double job_mtbf_seconds = 0;
  double simulated_seconds = 0;  // per run

  PlanCandidate best;
  std::optional<PlanCandidate> today;  // nothing if none of those that run today is possible
  std::vector<PlanCandidate> others;   // all but the best, by score, best first
  std::vector<ProtectionRefused> refused;
  std::vector<std::string> reasons;  // of the choice, one sentence each

  // The least number of spares that make up for all failed nodes, racks included, with the budget's
  // probability (spare_demand.h), and the probability with which best.spares do.
  int spares_wanted = 0;
  double spares_suffice = 1;

  ExpertPlan experts;            // their placement
  std::string failure_domain;    // "node" or "rack": copies go to other ones
  double tokens_per_second = 0;  // expected, failures included
  double host_bytes_per_gpu = 0;
};

// InvalidInput for a wrong budget, or a model and cluster that do not fit together; NoCapacity if
// nothing fits in memory or no protection is possible (it says why each is not).
absl::StatusOr<ProtectionPlan> plan_protection(const PlanInput& input);

// The same for a step that was measured or computed before.
absl::StatusOr<ProtectionPlan> plan_protection(const std::string& model, const JobLayout& layout,
                                               const StepForecast& step, const ClusterSpec& cluster,
                                               const PlanBudget& budget);

// How long a simulated run is: 300 failures of the job or 20 repairs (of nodes or racks), whatever
// is longer, at least a day.
double simulated_seconds(const ClusterSpec& cluster);

}  // namespace evermoe
