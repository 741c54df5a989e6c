// price_gradients(): the gradients of every step at peers, on top of snapshots now and then.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "planner/cost/protection_costs.h"
#include "planner/cost/stage_work.h"

namespace evermoe {
namespace {

constexpr char kGradientsName[] = "gradients";

// Of the shard of the rank that has most.
double shard_gradient_bytes(const JobProfile& job) {
  double most = 0;
  for (const auto& operators : job.operators_of_stage) {
    double optimizer = 0;
    for (const OperatorProfile& op : operators)
      optimizer += static_cast<double>(op.cost.full_bytes - op.cost.compute_bytes);
    most = std::max(most, optimizer);
  }
  return most / kOptimizerBytes * kGradientBytes;
}

}  // namespace

Priced price_gradients(const JobProfile& job, const ClusterSpec& cluster,
                       const PlanBudget& budget) {
  const double snapshot = job.rank_state_bytes(), gradients = shard_gradient_bytes(job);
  const int64_t every = budget.save_every > 0 ? budget.save_every : kGradientBaseSteps;
  // Two snapshots, and the gradients until the second one is complete everywhere.
  const double own = 2 * snapshot + static_cast<double>(every + 3) * gradients;
  const int copies = affordable_copies(job, cluster, budget, own);
  if (copies < 1 && budget.copies > 0)
    return ProtectionRefused{kGradientsName, "there is no other node for copies"};
  PricedProtection priced{.host_bytes_per_gpu = (1 + copies) * own};
  RunStrategy& strategy = priced.strategy;
  strategy = {.name = kGradientsName, .protection = StateProtection::kGradients, .copies = copies};
  strategy.save.every_steps = every;
  strategy.save.durable_after_seconds = copies * snapshot / cluster.nic_per_gpu();
  // The verdict of the step after a snapshot waits until that is at all peers.
  strategy.save.stall_seconds =
      std::max(copy_stall_seconds(job, cluster, snapshot),
               strategy.save.durable_after_seconds - (job.step_seconds - job.update_seconds));
  // And the verdict of each step until its gradients are.
  const double sent = std::max(gradients / cluster.gpu.host_bytes_per_second,
                               copies * gradients / cluster.nic_per_gpu());
  strategy.step_overhead_share =
      sent / job.step_seconds +
      save_overhead_share(job, cluster, strategy.save, strategy.save.durable_after_seconds);
  add_fallback(job, cluster, priced);
  strategy.recovery = recovery_seconds(job, cluster);
  // On average half an interval lies behind the snapshot.
  const double updates = static_cast<double>(every) / 2;
  const double link = std::min(cluster.nic_per_gpu(), cluster.gpu.host_bytes_per_second);
  strategy.recovery.load_memory =
      (snapshot + updates * gradients) / link + updates * job.update_seconds;
  if (auto refused = over_budget(kGradientsName, job, cluster, budget, priced)) return *refused;
  priced.reasons = {absl::StrFormat(
      "%.2f GB of gradients per GPU and step reach %d peers in %.0f ms before the update, and "
      "snapshots of %.2f GB every %d steps",
      gradients / 1e9, copies, 1000 * sent, snapshot / 1e9, every)};
  return priced;
}

}  // namespace evermoe
