#include "planner/cost/tier_costs.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {
namespace {

constexpr double kCostLeast = 1e-3;  // seconds of a save that stalls nothing

CheckpointTier tier(const char* name, const JobProfile& job, const ClusterSpec& cluster,
                    double busy_seconds, double load_seconds) {
  return {.name = name,
          .save_seconds = save_stall_seconds(job, cluster) +
                          cluster.capture_overhead_share * busy_seconds + kCostLeast,
          .restart_seconds = cluster.recovery.detect + cluster.recovery.restart + load_seconds,
          .shortest_interval_seconds = std::max(job.step_seconds, busy_seconds)};
}

double node_failures_mtbf_seconds(const ClusterSpec& cluster) {
  FailureLaw apart = cluster.failures;
  apart.whole_job_node_seconds = 0;
  return 1 / failure_rate(apart, cluster.nodes, cluster.racks);
}

}  // namespace

std::variant<TierAdvice, ProtectionRefused> price_tiers(const JobProfile& job,
                                                        const ClusterSpec& cluster, int copies) {
  TierAdvice advice;
  copies = std::min(copies, job.nodes - 1);
  const bool has_peers = copies > 0;
  if (has_peers) {
    advice.tiers.push_back(tier("peer memory", job, cluster,
                                copies * job.rank_state_bytes() / cluster.nic_per_gpu(),
                                load_memory_seconds(job, cluster)));
  }
  if (cluster.durable_bytes_per_second() > 0) {
    const double seconds = load_durable_seconds(job, cluster);  // a save takes as long
    advice.tiers.push_back(tier("durable storage", job, cluster, seconds, seconds));
  }
  advice.kinds.push_back({"a node or rack", node_failures_mtbf_seconds(cluster), 0});
  const MemoryLoss loss = memory_loss(job, cluster, std::max(copies, 0));
  const int storage = has_peers ? 1 : 0;
  if (has_peers && loss.copies_mtbf_seconds > 0)
    advice.kinds.push_back({"all copies of a state", loss.copies_mtbf_seconds, storage});
  if (has_peers && loss.rack_mtbf_seconds > 0)
    advice.kinds.push_back({"the only rack", loss.rack_mtbf_seconds, storage});
  if (loss.whole_job_mtbf_seconds > 0)
    advice.kinds.push_back({"the whole job", loss.whole_job_mtbf_seconds, storage});
  if (advice.tiers.empty())
    return ProtectionRefused{"tiers", "there is neither another node nor durable storage"};
  auto planned = plan_tier_intervals(advice.tiers, advice.kinds);
  if (const auto* why = std::get_if<TierPlanInfeasible>(&planned))
    return ProtectionRefused{"tiers", why->reason};
  advice.plan = std::move(std::get<TierPlan>(planned));
  return advice;
}

}  // namespace evermoe
