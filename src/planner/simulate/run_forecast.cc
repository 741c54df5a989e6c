#include "planner/simulate/run_forecast.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "config/job_strategy.h"
#include "planner/plan/protection_plan.h"
#include "planner/report/amount_text.h"
#include "planner/report/forecast_json.h"
#include "protection/interval/paced_interval.h"

namespace evermoe {
namespace {

constexpr double kAnyStall = 1e6;

PlanBudget configured_budget(const ProtectionConfig& protection) {
  PlanBudget budget;
  budget.host_bytes_per_gpu = static_cast<double>(protection.memory_budget);
  budget.stall_share_max = kAnyStall;
  budget.copies = static_cast<int>(protection.copies);
  budget.window = static_cast<int>(protection.window);
  budget.save_every = steps_between_snapshots(protection);
  return budget;
}

// With durable saves below as often as configured.
Priced with_fallback(Priced priced, int64_t steps) {
  auto* found = std::get_if<PricedProtection>(&priced);
  if (found == nullptr) return priced;
  found->strategy.fallback.every_steps = steps;
  found->fallback_reason = absl::StrCat("as configured (checkpoint.every_steps = ", steps,
                                        "); the best: ", found->fallback_reason);
  return priced;
}

Priced price_saves(const JobProfile& job, const ClusterSpec& cluster, int64_t every_steps) {
  if (every_steps == 0) return price_nothing(job, cluster);
  return price_durable(
      job, cluster,
      {.host_bytes_per_gpu = 1e15, .stall_share_max = kAnyStall, .save_every = every_steps});
}

// The same snapshots, but only the stage that lost a rank goes back to them.
Priced price_dense(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget) {
  Priced priced = price_peer_memory(job, cluster, budget);
  if (auto* found = std::get_if<PricedProtection>(&priced)) {
    found->strategy.name = std::string(to_string(StrategyKind::kDense));
    found->strategy.protection = StateProtection::kStageMemory;
  }
  return priced;
}

// Experts whose node lives come back from its memory.
Priced with_images(Priced priced, const ProtectionConfig& protection) {
  auto* found = std::get_if<PricedProtection>(&priced);
  if (found == nullptr) return priced;
  LossyExperts& lossy = found->strategy.lossy;
  const auto kept =
      static_cast<int>(std::min<int64_t>(protection.experts_in_memory, lossy.experts));
  lossy.in_memory = kept == 0 ? lossy.experts : kept;
  return priced;
}

// What one save costs does not depend on how often
// there is one.
Priced price_tuned_saves(const JobProfile& job, const ClusterSpec& cluster,
                         const ProtectionConfig& protection) {
  const Priced once = price_saves(job, cluster, 1);
  const auto* const priced = std::get_if<PricedProtection>(&once);
  if (priced == nullptr) return once;
  const PeriodicSave& save = priced->strategy.save;
  const double cost =
      save.stall_seconds + cluster.capture_overhead_share * save.durable_after_seconds;
  const SaveSteps steps{.longer = cost / job.step_seconds,
                        .to_disk = save.durable_after_seconds / job.step_seconds};
  return price_saves(job, cluster, paced_interval(steps, protection.overhead_budget));
}

void simulate(const ForecastOptions& options, RunForecast& forecast) {
  const ClusterSpec& cluster = forecast.cluster;
  const FailureTrace* trace = options.trace;
  forecast.simulated_seconds = trace != nullptr ? trace->end_seconds : simulated_seconds(cluster);
  const auto source = [&](uint64_t seed) {
    return trace != nullptr ? play_availability(*trace)
                            : draw_availability(cluster.failures, cluster.nodes + cluster.spares,
                                                cluster.racks, seed);
  };
  const TrainedJob job = trained_job(forecast.step.profile, cluster);
  const RunLimits limits{.wall_seconds = forecast.simulated_seconds};
  forecast.estimates =
      estimate_runs(job, forecast.priced.strategy, limits, source,
                    trace != nullptr ? 1 : options.simulated_runs, options.first_seed);
  simulate_run(job, forecast.priced.strategy, *source(options.first_seed), limits,
               &forecast.first_run);
}

// A job that the trace never has the nodes for would wait from its start to its end.
absl::Status check_trace(const FailureTrace& trace, const TrainedJob& job,
                         NodeReplacement replacement) {
  if (trace.end_seconds <= 0)
    return InvalidInput(
        "failure trace: found no time that was watched, allowed: at least two time stamps");
  const bool is_elastic = replacement == NodeReplacement::kElastic;
  const int needed = job.nodes_needed(is_elastic);
  const FailureTrace::Summary summary = trace.summary();
  if (summary.nodes_max >= needed) return absl::OkStatus();
  const std::string when = summary.nodes_max_seconds == 0
                               ? std::string("at the start")
                               : absl::StrCat("after ", duration_text(summary.nodes_max_seconds));
  return InvalidInput(
      absl::StrFormat("failure trace: never has enough nodes: the job needs %d at once%s, the "
                      "trace has at most %d, first %s of %s; allowed: "
                      "a job on at most %d nodes (cluster.nodes)",
                      needed, is_elastic ? " even with fewer nodes" : "", summary.nodes_max, when,
                      duration_text(trace.end_seconds), summary.nodes_max));
}

}  // namespace

Priced price_configured(const JobProfile& job, const ClusterSpec& cluster,
                        const ProtectionConfig& protection, const CheckpointConfig& checkpoint) {
  // A worker may not use more of the link than it is given.
  ClusterSpec limited = cluster;
  limited.gpu.host_bytes_per_second =
      std::min(cluster.gpu.host_bytes_per_second, static_cast<double>(protection.copy_bandwidth));
  const PlanBudget budget = configured_budget(protection);
  switch (protection.strategy) {
    case StrategyKind::kSparse:
      return with_fallback(price_sparse(job, limited, budget), checkpoint.every_steps);
    case StrategyKind::kDense:
      return with_fallback(price_dense(job, limited, budget), checkpoint.every_steps);
    case StrategyKind::kPeerMemory:
      return with_fallback(price_peer_memory(job, limited, budget), checkpoint.every_steps);
    case StrategyKind::kGradients:
      return with_fallback(price_gradients(job, limited, budget), checkpoint.every_steps);
    case StrategyKind::kCheckfreq: return price_tuned_saves(job, cluster, protection);
    case StrategyKind::kPartialExperts:
      return checkpoint.every_steps == 0
                 ? Priced(price_nothing(job, cluster))
                 : with_images(
                       price_saves_of_experts(job, cluster,
                                              static_cast<int>(std::min(protection.experts_saved,
                                                                        int64_t{job.experts})),
                                              static_cast<int>(checkpoint.every_steps)),
                       protection);
    case StrategyKind::kNone: return price_saves(job, cluster, checkpoint.every_steps);
  }
  return ProtectionRefused{"protection", "unknown"};
}

absl::StatusOr<RunForecast> forecast_run(const PlannedModel& model,
                                         const ProtectionConfig& protection,
                                         const CheckpointConfig& checkpoint,
                                         const ClusterSpec& cluster,
                                         const ForecastOptions& options) {
  RETURN_IF_ERROR(check(cluster.failures, cluster.racks));
  ASSIGN_OR_RETURN(PlannedStep planned, plan_step(model, cluster));
  RunForecast forecast{.model = model.name,
                       .cluster = cluster,
                       .layout = planned.layout,
                       .step = std::move(planned.step),
                       .batch = std::move(planned.batch),
                       .missing = missing_in_runtime(model, planned.layout)};
  const JobProfile& job = forecast.step.profile;
  if (options.trace != nullptr)
    RETURN_IF_ERROR(check_trace(*options.trace, trained_job(job, cluster), options.replacement));
  Priced priced = price_configured(job, cluster, protection, checkpoint);
  if (const auto* refused = std::get_if<ProtectionRefused>(&priced)) {
    return NoCapacity(absl::StrCat("protection ", refused->name, ": ", refused->reason));
  }
  forecast.priced = std::get<PricedProtection>(std::move(priced));
  RunStrategy& strategy = forecast.priced.strategy;
  strategy.replacement = options.replacement;
  strategy.migrates = can_move_roles(strategy.protection);
  const std::string missing = missing_in_runtime(strategy);
  if (!missing.empty())
    absl::StrAppend(&forecast.missing, forecast.missing.empty() ? "" : " and ", missing);
  forecast.job_mtbf_seconds = cluster.job_mtbf_seconds();
  simulate(options, forecast);
  forecast.tokens_per_second =
      forecast.estimates.ettr.mean * job.tokens_per_step / job.step_seconds;
  return forecast;
}

std::string to_text(const RunForecast& forecast) {
  const JobProfile& profile = forecast.step.profile;
  const RunEstimates& runs = forecast.estimates;
  std::string text = absl::StrFormat(
      "%s on %d nodes of %d %s and %d %s, %s, %s\n", forecast.model, forecast.cluster.nodes,
      forecast.cluster.gpus_per_node, forecast.cluster.gpu.name, forecast.cluster.spares,
      forecast.cluster.spares == 1 ? "spare" : "spares", forecast.priced.strategy.name,
      to_string(forecast.priced.strategy.replacement));
  absl::StrAppendFormat(&text, "  layout        %s\n  batch         %s\n",
                        layout_text(forecast.layout),
                        batch_text(forecast.layout, profile.tokens_per_step, forecast.batch));
  absl::StrAppendFormat(&text, "  step          %s without failures, %s\n",
                        duration_text(profile.step_seconds), profile.origin);
  absl::StrAppendFormat(&text, "  memory        %s of each GPU, %s of the host for each\n",
                        bytes_text(profile.gpu_bytes()),
                        bytes_text(forecast.priced.host_bytes_per_gpu));
  absl::StrAppendFormat(&text, "  failures      %s\n", failures_text(forecast.cluster));
  if (!forecast.priced.fallback_reason.empty())
    absl::StrAppendFormat(&text, "  durable       %s\n", forecast.priced.fallback_reason);
  absl::StrAppendFormat(&text, "  ETTR          %s\n", percent_text(runs.ettr));
  absl::StrAppendFormat(&text, "  goodput       %s tokens/s\n",
                        count_text(forecast.tokens_per_second));
  absl::StrAppendFormat(&text, "  downtime      %s a day in %s\n",
                        duration_text(86400 * runs.downtime_share.mean), stops_text(runs));
  absl::StrAppendFormat(&text,
                        "  of the time   %s waiting for nodes, %s work done again, %s stalls and "
                        "overhead, %s fewer nodes\n",
                        percent_text(runs.waiting_share.mean), percent_text(runs.rework_share.mean),
                        percent_text(runs.protection_share.mean),
                        percent_text(runs.shrunk_share.mean));
  if (!forecast.missing.empty())
    absl::StrAppendFormat(&text, "  forecast only the runtime has no %s\n", forecast.missing);
  absl::StrAppendFormat(
      &text, "  simulated     %d runs of %s, %d interruptions, %d times all copies lost\n",
      runs.ettr.count, duration_text(forecast.simulated_seconds), runs.interruptions,
      runs.fallbacks);
  return text;
}

std::string to_json(const RunForecast& forecast) { return as_json(forecast).dump(2) + "\n"; }

}  // namespace evermoe
