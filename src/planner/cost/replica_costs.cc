// price_replicas(): what live replicas of every state take from GPUs and steps.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/cost/protection_costs.h"
#include "planner/cost/stage_work.h"

namespace evermoe {
namespace {

constexpr char kReplicasName[] = "live replicas";

// What a rank holds if nothing is cut into shards.
struct HeldState {
  double optimizer_bytes = 0;
  double dense_weight_bytes = 0;
  double expert_weight_bytes = 0;
  double elements() const { return optimizer_bytes / kOptimizerBytes; }
  double weight_bytes() const { return dense_weight_bytes + expert_weight_bytes; }
  double state_bytes() const { return optimizer_bytes + weight_bytes(); }
};

HeldState held_state(const std::vector<OperatorProfile>& operators, int lanes, int replicas) {
  HeldState held;
  for (const OperatorProfile& op : operators) {
    const bool is_expert = op.expert >= 0;
    const double owners = is_expert ? replicas : lanes;
    held.optimizer_bytes +=
        owners * static_cast<double>(op.cost.full_bytes - op.cost.compute_bytes);
    (is_expert ? held.expert_weight_bytes : held.dense_weight_bytes) +=
        owners * static_cast<double>(op.cost.compute_bytes);
  }
  return held;
}

HeldState most_held(const JobProfile& job, int replicas) {
  HeldState most;
  for (size_t stage = 0; stage < job.operators_of_stage.size(); ++stage) {
    const HeldState held = held_state(job.operators_of_stage[stage], job.lanes[stage], replicas);
    if (held.state_bytes() > most.state_bytes()) most = held;
  }
  return most;
}

// By which a step is longer than with shards: every rank updates all that it holds, and what is
// gathered after the reduction is gradients instead of new weights.
double longer_seconds(const JobProfile& job, const ClusterSpec& cluster, const HeldState& held,
                      int replicas) {
  const double update = kUpdateBytes * held.elements() / cluster.gpu.memory_bytes_per_second;
  const Fabric fabric = lane_fabric(cluster, job.lanes_per_node);
  const double wider = kGradientBytes * held.elements() / held.weight_bytes();
  const int lanes = *std::max_element(job.lanes.begin(), job.lanes.end());
  const auto gathers = [&](double times) {
    return gather_seconds(lanes, times * held.dense_weight_bytes, fabric) +
           ring_gather_seconds(replicas, times * held.expert_weight_bytes, fabric.across);
  };
  return std::max(0.0, update - job.update_seconds) + std::max(0.0, gathers(wider) - gathers(1));
}

std::optional<std::string> why_not(const JobProfile& job, const ClusterSpec& cluster,
                                   const ExpertPlan& experts, double gpu_bytes) {
  if (experts.distinct_least < 2) {
    return absl::StrCat("not every state is on two nodes of its stage (", experts.reason,
                        "); parallel.expert_replicas decides");
  }
  if (gpu_bytes <= usable_gpu_bytes(cluster)) return std::nullopt;
  return absl::StrFormat(
      "whole optimizer states on every rank need %.1f GB of each GPU, which has %.1f GB to use "
      "(with shards it is %.1f GB)",
      gpu_bytes / 1e9, usable_gpu_bytes(cluster) / 1e9, job.gpu_bytes() / 1e9);
}

}  // namespace

Priced price_replicas(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget,
                      const ExpertPlan& experts) {
  const HeldState held = most_held(job, experts.replicas);
  const double gpu_bytes =
      held.state_bytes() + kGradientBytes * held.elements() + job.activation_bytes;
  if (auto reason = why_not(job, cluster, experts, gpu_bytes))
    return ProtectionRefused{kReplicasName, *reason};
  PricedProtection priced;
  RunStrategy& strategy = priced.strategy;
  strategy = {.name = kReplicasName,
              .protection = StateProtection::kReplicas,
              .copies = experts.distinct_least - 1};
  const double longer = longer_seconds(job, cluster, held, experts.replicas);
  strategy.step_overhead_share = longer / job.step_seconds;
  add_fallback(job, cluster, priced);
  strategy.recovery = recovery_seconds(job, cluster);
  strategy.recovery.load_memory =
      held.state_bytes() / std::min(cluster.nic_per_gpu(), cluster.gpu.host_bytes_per_second);
  // From the old process to the new one.
  strategy.recovery.migrate = cluster.recovery.migrate + strategy.recovery.load_memory;
  if (strategy.fallback.every_steps > 0) priced.host_bytes_per_gpu = 2 * job.rank_state_bytes();
  if (auto refused = over_budget(kReplicasName, job, cluster, budget, priced)) return *refused;
  priced.reasons = {absl::StrFormat(
      "every state is live on %d nodes of its stage or more: a failure loses the step under way, "
      "and %.1f GB of each GPU and "
      "%.0f ms of each step are the price",
      experts.distinct_least, (gpu_bytes - job.gpu_bytes()) / 1e9, 1000 * longer)};
  return priced;
}

}  // namespace evermoe
