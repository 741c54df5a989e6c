#include "papers/trainmover_projection.h"

#include "base/check.h"
#include "papers/trainmover_comparison.h"
#include "planner/measured/measured_recovery.h"
#include "planner/simulate/run_forecast.h"

namespace evermoe {
namespace {

constexpr double kRescheduled = 120;
constexpr int kMachineGpus = 8;

ClusterSpec cluster_of(const RuntimeProfile& profile, const GpuSeconds& gpu, int gpus,
                       double mtbf_seconds) {
  ClusterSpec cluster = with_recovery(default_cluster(), profile, "profile").value();
  cluster.nodes = gpus / kMachineGpus;
  cluster.spares = 1;
  cluster.failures = {.node_mtbf_seconds = mtbf_seconds * cluster.nodes,
                      .repair_seconds = kRescheduled,
                      .announced_share = kAnnouncedShare};
  cluster.recovery.detect = kSilenceSeconds;
  cluster.recovery.standby += gpu.connect;
  cluster.recovery.migrate += gpu.connect;
  cluster.recovery.restart += gpu.connect + gpu.warm_up;
  return cluster;
}

double wasted(const ClusterSpec& cluster, StrategyKind kind, NodeReplacement replacement,
              int runs) {
  const PlannedJob job = load_planned_job(real_files(), "mixtral-8x7b", {}).value();
  ProtectionConfig protection = job.protection;
  protection.strategy = kind;
  const auto forecast = forecast_run(job.model, protection, job.checkpoint, cluster,
                                     {.simulated_runs = runs, .replacement = replacement});
  CHECK_OK(forecast.status());
  return forecast->estimates.downtime_share.mean + forecast->estimates.rework_share.mean;
}

}  // namespace

ProjectedWaste project_waste(const RuntimeProfile& profile, const GpuSeconds& gpu,
                             const WasteScale& scale, int runs) {
  CHECK(profile.recovery.has_value());
  const ClusterSpec cluster = cluster_of(profile, gpu, scale.gpus, scale.mtbf_seconds);
  const double idle = static_cast<double>(kMachineGpus) / scale.gpus;
  using enum NodeReplacement;
  return {scale.gpus, scale.mtbf_seconds,
          wasted(cluster, StrategyKind::kSparse, kStandby, runs) + idle,
          wasted(cluster, StrategyKind::kSparse, kRestart, runs),
          wasted(cluster, StrategyKind::kCheckfreq, kRestart, runs)};
}

}  // namespace evermoe
