#include "planner/report/forecast_json.h"

#include <nlohmann/json.hpp>

namespace evermoe {

using Json = nlohmann::ordered_json;

Json as_json(const Estimate& estimate) {
  return {{"mean", estimate.mean},
          {"standard_error", estimate.error},
          {"low_95", estimate.low},
          {"high_95", estimate.high},
          {"runs", estimate.count}};
}

Json as_json(const RunEstimates& estimates) {
  Json result = {{"ettr", as_json(estimates.ettr)},
                 {"downtime_share", as_json(estimates.downtime_share)},
                 {"detection_share", as_json(estimates.detection_share)},
                 {"restart_share", as_json(estimates.change_share)},
                 {"restore_share", as_json(estimates.restore_share)},
                 {"waiting_share", as_json(estimates.waiting_share)},
                 {"rework_share", as_json(estimates.rework_share)},
                 {"protection_share", as_json(estimates.protection_share)},
                 {"shrunk_share", as_json(estimates.shrunk_share)},
                 {"interruptions_per_day", as_json(estimates.interruptions_per_day)},
                 {"moves_per_day", as_json(estimates.moves_per_day)},
                 {"lost_token_share", as_json(estimates.lost_share)},
                 {"interruptions_simulated", estimates.interruptions},
                 {"fallbacks_simulated", estimates.fallbacks}};
  if (estimates.interruptions > 0) {
    result["downtime_per_interruption_seconds"] =
        as_json(estimates.downtime_per_interruption_seconds);
  }
  return result;
}

namespace {

Json save_json(const PeriodicSave& save) {
  return {{"every_steps", save.every_steps},
          {"stall_seconds", save.stall_seconds},
          {"durable_after_seconds", save.durable_after_seconds}};
}

Json recovery_json(const RunStrategy& strategy) {
  const RecoverySeconds& recovery = strategy.recovery;
  return {{"detect_seconds", recovery.detect},
          {"restart_seconds", recovery.restart},
          {"standby_seconds", recovery.standby},
          {"move_seconds", strategy.migrates ? Json(recovery.migrate) : Json()},
          {"load_memory_seconds", recovery.load_memory},
          {"load_durable_seconds", recovery.load_durable}};
}

}  // namespace

Json as_json(const RunStrategy& strategy) {
  Json result = {{"name", strategy.name},
                 {"protection", to_string(strategy.protection)},
                 {"replacement", to_string(strategy.replacement)},
                 {"lossy", strategy.protection == StateProtection::kPartialExperts},
                 {"copies", strategy.copies},
                 {"step_overhead_share", strategy.step_overhead_share},
                 {"missing_in_runtime", missing_in_runtime(strategy)},
                 {"recovery", recovery_json(strategy)}};
  if (strategy.protection == StateProtection::kSparse) {
    result["window"] = strategy.sparse.window;
    result["lag_steps"] = strategy.sparse.lag_steps;
  } else if (strategy.protection != StateProtection::kReplicas) {
    result["save"] = save_json(strategy.save);
  }
  if (strategy.protection == StateProtection::kPartialExperts) {
    result["experts"] = strategy.lossy.experts;
    result["saved_experts"] = strategy.lossy.saved;
  }
  if (strategy.fallback.every_steps > 0) result["fallback"] = save_json(strategy.fallback);
  return result;
}

Json as_json(const JobLayout& layout, const StepForecast& step) {
  const StepParts& parts = step.parts;
  const JobProfile& profile = step.profile;
  return {{"origin", profile.origin},
          {"lanes", layout.lanes},
          {"tensor_parallel", layout.tensor_parallel},
          {"recompute", to_string(layout.recompute)},
          {"expert_replicas", layout.expert_replicas},
          {"micro_batches", layout.micro_batches},
          {"micro_batch_size", layout.micro_batch_size},
          {"step_seconds", profile.step_seconds},
          {"pipeline_seconds", parts.pipeline_seconds},
          {"bubble_share", parts.bubble_share},
          {"reduction_seconds", parts.reduction_seconds},
          {"update_seconds", parts.update_seconds},
          {"used_flops_share", parts.used_flops_share},
          {"tokens_per_step", profile.tokens_per_step},
          {"gpu_bytes", profile.gpu_bytes()},
          {"weight_bytes", profile.weight_bytes},
          {"gradient_bytes", profile.gradient_bytes},
          {"optimizer_bytes", profile.optimizer_bytes},
          {"activation_bytes", profile.activation_bytes},
          {"state_bytes", profile.state_bytes}};
}

Json as_json(const RunForecast& forecast) {
  return {{"model", forecast.model},
          {"nodes", forecast.cluster.nodes},
          {"spares", forecast.cluster.spares},
          {"gpus", forecast.cluster.gpus()},
          {"job_mtbf_seconds", forecast.job_mtbf_seconds},
          {"whole_job_mtbf_seconds", forecast.cluster.whole_job_mtbf_seconds()},
          {"job", as_json(forecast.layout, forecast.step)},
          {"batch", forecast.batch},
          {"strategy", as_json(forecast.priced.strategy)},
          {"host_bytes_per_gpu", forecast.priced.host_bytes_per_gpu},
          {"estimates", as_json(forecast.estimates)},
          {"tokens_per_second", forecast.tokens_per_second},
          {"simulated_seconds", forecast.simulated_seconds},
          {"reasons", forecast.priced.reasons},
          {"fallback_reason", forecast.priced.fallback_reason}};
}

}  // namespace evermoe
