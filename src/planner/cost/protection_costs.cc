#include "planner/cost/protection_costs.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "planner/simulate/lossy_ages.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

constexpr double kGigabyte = 1e9;

// Bytes of a rank's full snapshots that durable storage needs: the compute weights follow from the
// masters.
double durable_bytes(const JobProfile& job) { return job.state_bytes; }

int64_t steps_for(const JobProfile& job, double seconds) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(seconds / job.step_seconds)));
}

// The interval that loses least, or the one wanted, no shorter than `least_seconds`.
int64_t best_every(const JobProfile& job, const ClusterSpec& cluster, double stall,
                   double least_seconds, int64_t wanted) {
  const int64_t least = steps_for(job, least_seconds);
  if (wanted > 0) return std::max(least, wanted);
  if (stall <= 0) return least;
  const double work =
      best_interval_seconds({.save_seconds = stall, .mtbf_seconds = cluster.job_mtbf_seconds()});
  return std::max(least, std::max<int64_t>(1, std::llround(work / job.step_seconds)));
}

double stall_share(const JobProfile& job, const RunStrategy& strategy) {
  double share = strategy.step_overhead_share;
  for (const PeriodicSave& save : {strategy.save, strategy.fallback}) {
    if (save.every_steps > 0)
      share += save.stall_seconds / (static_cast<double>(save.every_steps) * job.step_seconds);
  }
  return share;
}

}  // namespace

RecoverySeconds recovery_seconds(const JobProfile& job, const ClusterSpec& cluster) {
  RecoverySeconds recovery = cluster.recovery;
  recovery.load_memory = load_memory_seconds(job, cluster);
  recovery.load_durable = load_durable_seconds(job, cluster);
  recovery.migrate += 2 * recovery.load_memory;
  return recovery;
}

double copy_stall_seconds(const JobProfile& job, const ClusterSpec& cluster, double bytes) {
  return std::max(
      0.0, bytes / cluster.gpu.host_bytes_per_second - (job.step_seconds - job.update_seconds));
}

double save_overhead_share(const JobProfile& job, const ClusterSpec& cluster,
                           const PeriodicSave& save, double busy_seconds) {
  const double interval = static_cast<double>(save.every_steps) * job.step_seconds;
  return cluster.capture_overhead_share * std::min(1.0, busy_seconds / interval);
}

int affordable_copies(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget,
                      double own_bytes) {
  int copies = budget.copies;
  while (copies > 1 && (1 + copies) * own_bytes > host_budget_bytes(cluster, budget)) --copies;
  return std::min(copies, job.nodes - 1);
}

double save_stall_seconds(const JobProfile& job, const ClusterSpec& cluster) {
  return copy_stall_seconds(job, cluster, job.rank_state_bytes());
}

double host_budget_bytes(const ClusterSpec& cluster, const PlanBudget& budget) {
  if (budget.host_bytes_per_gpu > 0) return budget.host_bytes_per_gpu;
  return cluster.host_memory_bytes / cluster.gpus_per_node / 2;
}

std::optional<ProtectionRefused> over_budget(const char* name, const JobProfile& job,
                                             const ClusterSpec& cluster, const PlanBudget& budget,
                                             PricedProtection& priced) {
  priced.stall_share = stall_share(job, priced.strategy);
  const double needed = priced.host_bytes_per_gpu, allowed = host_budget_bytes(cluster, budget);
  if (needed > allowed) {
    return ProtectionRefused{
        name, absl::StrFormat("needs %.1f GB of host memory per GPU, %.1f GB are allowed",
                              needed / kGigabyte, allowed / kGigabyte)};
  }
  if (priced.stall_share <= budget.stall_share_max) return std::nullopt;
  return ProtectionRefused{name,
                           absl::StrFormat("lengthens a mean step by %.1f %%, %.1f %% are allowed",
                                           100 * priced.stall_share, 100 * budget.stall_share_max)};
}

double load_durable_seconds(const JobProfile& job, const ClusterSpec& cluster) {
  const double rate = cluster.durable_bytes_per_second();
  return rate > 0 ? durable_bytes(job) / rate : 0;
}

double load_memory_seconds(const JobProfile& job, const ClusterSpec& cluster) {
  return job.rank_state_bytes() /
         std::min(cluster.nic_per_gpu(), cluster.gpu.host_bytes_per_second);
}

TrainedJob trained_job(const JobProfile& job, const ClusterSpec& cluster) {
  return {.step_seconds = job.step_seconds,
          .nodes = job.nodes,
          .nodes_least = (job.nodes + 1) / 2,
          .elastic_unit = std::min(job.stages, job.nodes),
          .stages = job.stages,
          .rounds = job.rounds,
          .racks = cluster.racks};
}

Priced price_durable(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget) {
  static const char kName[] = "durable";
  const double rate = cluster.durable_bytes_per_second();
  if (rate == 0) return ProtectionRefused{kName, "there is no durable storage"};
  const double snapshot = job.rank_state_bytes();
  PricedProtection priced{.host_bytes_per_gpu = 2 * snapshot};
  RunStrategy& strategy = priced.strategy;
  strategy = {.name = kName, .protection = StateProtection::kDurable, .copies = 0};
  strategy.save.stall_seconds = copy_stall_seconds(job, cluster, snapshot);
  strategy.save.durable_after_seconds = durable_bytes(job) / rate;
  strategy.save.every_steps = best_every(job, cluster, strategy.save.stall_seconds,
                                         strategy.save.durable_after_seconds, budget.save_every);
  strategy.step_overhead_share =
      save_overhead_share(job, cluster, strategy.save, strategy.save.durable_after_seconds);
  strategy.recovery = recovery_seconds(job, cluster);
  if (auto refused = over_budget(kName, job, cluster, budget, priced)) return *refused;
  priced.reasons = {
      absl::StrFormat("a save of %.1f GB takes %.0f s to durable storage and stalls training %.2f "
                      "s: every %d steps",
                      durable_bytes(job) / kGigabyte, strategy.save.durable_after_seconds,
                      strategy.save.stall_seconds, strategy.save.every_steps)};
  return priced;
}

Priced price_peer_memory(const JobProfile& job, const ClusterSpec& cluster,
                         const PlanBudget& budget) {
  static const char kName[] = "peer memory";
  const double snapshot = job.rank_state_bytes();
  // Two of everything: the complete one and the one being made.
  const int copies = affordable_copies(job, cluster, budget, 2 * snapshot);
  if (copies < 1 && budget.copies > 0)
    return ProtectionRefused{kName, "there is no other node for copies"};
  PricedProtection priced{.host_bytes_per_gpu = 2 * (1 + copies) * snapshot};
  RunStrategy& strategy = priced.strategy;
  strategy = {.name = kName, .protection = StateProtection::kPeerMemory, .copies = copies};
  strategy.save.stall_seconds = copy_stall_seconds(job, cluster, snapshot);
  strategy.save.durable_after_seconds = copies * snapshot / cluster.nic_per_gpu();
  strategy.save.every_steps = best_every(job, cluster, strategy.save.stall_seconds,
                                         strategy.save.durable_after_seconds, budget.save_every);
  strategy.step_overhead_share =
      save_overhead_share(job, cluster, strategy.save, strategy.save.durable_after_seconds);
  add_fallback(job, cluster, priced);
  strategy.recovery = recovery_seconds(job, cluster);
  if (auto refused = over_budget(kName, job, cluster, budget, priced)) return *refused;
  priced.reasons = {
      absl::StrFormat("a snapshot of %.2f GB per GPU reaches %d peers in %.2f s and stalls "
                      "training %.2f s: every %d steps",
                      snapshot / kGigabyte, copies, strategy.save.durable_after_seconds,
                      strategy.save.stall_seconds, strategy.save.every_steps)};
  return priced;
}

PricedProtection price_nothing(const JobProfile& job, const ClusterSpec& cluster) {
  PricedProtection priced{.reasons = {"nothing is saved: a failure loses everything"}};
  priced.strategy = {.name = "none",
                     .protection = StateProtection::kDurable,
                     .copies = 0,
                     .recovery = recovery_seconds(job, cluster)};
  return priced;
}

namespace {

struct PartialSave {
  RunStrategy strategy;
  double lost_share = 0;  // expected, of the run's tokens
};

// With the best interval if `every_steps` is 0.
PartialSave partial_save(const JobProfile& job, const ClusterSpec& cluster, int saved,
                         int every_steps = 0) {
  const double share = 1 - job.expert_state_bytes / job.state_bytes *
                               (1 - static_cast<double>(saved) / static_cast<double>(job.experts));
  PartialSave result;
  RunStrategy& strategy = result.strategy;
  strategy = {
      .name = "partial experts", .protection = StateProtection::kPartialExperts, .copies = 0};
  strategy.lossy = {static_cast<int>(job.experts), saved};
  strategy.save.stall_seconds = copy_stall_seconds(job, cluster, share * job.rank_state_bytes());
  strategy.save.durable_after_seconds =
      share * durable_bytes(job) / cluster.durable_bytes_per_second();
  strategy.save.every_steps = best_every(job, cluster, strategy.save.stall_seconds,
                                         strategy.save.durable_after_seconds, every_steps);
  strategy.step_overhead_share =
      save_overhead_share(job, cluster, strategy.save, strategy.save.durable_after_seconds);
  strategy.recovery = recovery_seconds(job, cluster);
  // A failure loses what the experts' ages hold, and no more than was trained since the last one.
  const double steps = lossy_steps_per_fault(strategy.lossy, strategy.save.every_steps);
  result.lost_share = std::min(1.0, steps * job.step_seconds / cluster.job_mtbf_seconds());
  return result;
}

PricedProtection priced_partial_save(const JobProfile& job, const PartialSave& save) {
  return {.strategy = save.strategy,
          .host_bytes_per_gpu = 2 * job.rank_state_bytes(),
          .reasons = {absl::StrFormat(
              "LOSSY: %d of %d experts of a layer every %d steps lose about %.3f %% of the tokens",
              save.strategy.lossy.saved, job.experts, save.strategy.save.every_steps,
              100 * save.lost_share)}};
}

}  // namespace

Priced price_saves_of_experts(const JobProfile& job, const ClusterSpec& cluster, int saved,
                              int every_steps) {
  if (cluster.durable_bytes_per_second() == 0)
    return ProtectionRefused{"partial experts", "there is no durable storage"};
  return priced_partial_save(job, partial_save(job, cluster, saved, every_steps));
}

Priced price_partial_experts(const JobProfile& job, const ClusterSpec& cluster,
                             const PlanBudget& budget) {
  static const char kName[] = "partial experts";
  if (budget.lost_share_max <= 0)
    return ProtectionRefused{kName, "loses tokens, and the budget allows none"};
  if (cluster.durable_bytes_per_second() == 0)
    return ProtectionRefused{kName, "there is no durable storage"};
  for (int saved = 1; saved < job.experts; saved *= 2) {
    const PartialSave save = partial_save(job, cluster, saved);
    if (save.lost_share > budget.lost_share_max) continue;
    PricedProtection priced = priced_partial_save(job, save);
    if (auto refused = over_budget(kName, job, cluster, budget, priced)) return *refused;
    absl::StrAppendFormat(&priced.reasons.front(), " (%.3f %% are allowed)",
                          100 * budget.lost_share_max);
    return priced;
  }
  return ProtectionRefused{
      kName, absl::StrFormat(
                 "no K below all %d experts keeps the expected loss within %.3f %% of the tokens",
                 job.experts, 100 * budget.lost_share_max)};
}

}  // namespace evermoe
