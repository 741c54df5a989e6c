// price_elastic(): memory that is set aside for the day when few nodes are left.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "planner/cost/protection_costs.h"

namespace evermoe {
namespace {

// By how much more of a stage's state a rank has on the fewest nodes. Stages may differ by a lane
// then, as config/job_topology.h's narrowest_lanes() has it.
double state_growth(const JobProfile& job, int nodes_least) {
  double most = 1;
  for (const int lanes : job.lanes) {
    const int64_t left = int64_t{lanes} * nodes_least / job.nodes - 1;
    const auto fewest = static_cast<double>(std::max<int64_t>(1, left));
    most = std::max(most, static_cast<double>(lanes) / fewest);
  }
  return most;
}

}  // namespace

Priced price_elastic(const PricedProtection& priced, const JobProfile& job,
                     const ClusterSpec& cluster, const PlanBudget& budget) {
  const int least = trained_job(job, cluster).nodes_needed(/*is_elastic=*/true);
  PricedProtection elastic = priced;
  elastic.host_bytes_per_gpu *= state_growth(job, least);
  const double needed = elastic.host_bytes_per_gpu, allowed = host_budget_bytes(cluster, budget);
  if (needed <= allowed) return elastic;
  return ProtectionRefused{
      "elastic",
      absl::StrFormat("%s on %d nodes needs %.1f GB of host memory per GPU, %.1f GB are allowed",
                      priced.strategy.name, least, needed / 1e9, allowed / 1e9)};
}

}  // namespace evermoe
