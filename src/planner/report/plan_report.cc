#include "planner/report/plan_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/limits.h"
#include "config/config_key.h"
#include "planner/report/amount_text.h"
#include "planner/report/forecast_json.h"
#include "planner/report/tier_report.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

std::string job_text(const ProtectionPlan& plan) {
  const JobProfile& profile = plan.step.profile;
  std::string text = absl::StrFormat("%s on %d nodes of %d %s\n", plan.model, plan.cluster.nodes,
                                     plan.cluster.gpus_per_node, plan.cluster.gpu.name);
  absl::StrAppendFormat(&text, "  layout        %s\n  batch         %s\n", layout_text(plan.layout),
                        batch_text(plan.layout, profile.tokens_per_step, plan.batch));
  absl::StrAppendFormat(&text, "  step          %s without failures, %s\n",
                        duration_text(profile.step_seconds), profile.origin);
  absl::StrAppendFormat(&text, "  GPU memory    %s of %s\n", bytes_text(profile.gpu_bytes()),
                        bytes_text(plan.cluster.gpu.memory_bytes));
  absl::StrAppendFormat(&text, "  failures      %s\n", failures_text(plan.cluster));
  return text;
}

std::string settings_text(const ProtectionPlan& plan) {
  const RunStrategy& strategy = plan.best.priced.strategy;
  const bool has_replicas = strategy.protection == StateProtection::kReplicas;
  std::string text;
  if (strategy.protection == StateProtection::kSparse)
    absl::StrAppendFormat(&text, "  window        %d steps\n", strategy.sparse.window);
  if (strategy.save.every_steps > 0) {
    absl::StrAppendFormat(&text, "  saves         every %d steps (%s)\n", strategy.save.every_steps,
                          duration_text(static_cast<double>(strategy.save.every_steps) *
                                        plan.step.profile.step_seconds));
  }
  if (plan.best.is_lossy())
    absl::StrAppendFormat(&text, "  LOSSY         %d of %d experts a save\n", strategy.lossy.saved,
                          strategy.lossy.experts);
  if (has_replicas)
    absl::StrAppendFormat(&text, "  live states   on %d nodes of a stage at least\n",
                          strategy.copies + 1);
  if (strategy.copies > 0 && !has_replicas)
    absl::StrAppendFormat(&text, "  copies        %d, on other %ss\n", strategy.copies,
                          plan.failure_domain);
  if (strategy.fallback.every_steps > 0) {
    absl::StrAppendFormat(&text, "  durable saves every %d steps (%s)\n",
                          strategy.fallback.every_steps,
                          duration_text(static_cast<double>(strategy.fallback.every_steps) *
                                        plan.step.profile.step_seconds));
  }
  absl::StrAppendFormat(&text, "  experts       %d of a layer, %d replicas of each in a stage\n",
                        plan.experts.experts, plan.experts.replicas);
  absl::StrAppendFormat(&text, "  spares        %d nodes (enough %s of the time)\n",
                        plan.best.spares, percent_text(plan.spares_suffice));
  absl::StrAppendFormat(&text, "  host memory   %s per GPU\n", bytes_text(plan.host_bytes_per_gpu));
  return text;
}

std::string expectation_text(const ProtectionPlan& plan) {
  const RunEstimates& runs = plan.best.estimates;
  std::string text = absl::StrFormat("expected\n  ETTR          %s\n", percent_text(runs.ettr));
  absl::StrAppendFormat(&text, "  goodput       %s tokens/s\n", count_text(plan.tokens_per_second));
  absl::StrAppendFormat(&text, "  downtime      %s a day in %s\n",
                        duration_text(86400 * runs.downtime_share.mean), stops_text(runs));
  absl::StrAppendFormat(
      &text, "  lost          %s stalls and overhead, %s work done again, %s fewer nodes\n",
      percent_text(runs.protection_share.mean), percent_text(runs.rework_share.mean),
      percent_text(runs.shrunk_share.mean));
  if (plan.best.is_lossy())
    absl::StrAppendFormat(&text, "  LOST TOKENS   %s\n", percent_text(runs.lost_share, 3));
  return text;
}

// Where most of all nodes' time goes that is not training, the two largest.
std::string losses_text(const PlanCandidate& candidate, int nodes) {
  const RunEstimates& runs = candidate.estimates;
  const double idle = static_cast<double>(candidate.spares) / (nodes + candidate.spares),
               used = 1 - idle;
  std::vector<std::pair<double, const char*>> losses = {
      {idle, "idle spares"},
      {used * runs.waiting_share.mean, "waiting for nodes"},
      {used * (runs.downtime_share.mean - runs.waiting_share.mean), "recovery"},
      {used * runs.rework_share.mean, "work done again"},
      {used * runs.protection_share.mean, "stalls and overhead"},
      {used * runs.shrunk_share.mean, "fewer nodes"}};
  std::stable_sort(losses.begin(), losses.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return absl::StrFormat("%s %s, %s %s", percent_text(losses[0].first), losses[0].second,
                         percent_text(losses[1].first), losses[1].second);
}

std::string candidates_text(const ProtectionPlan& plan) {
  std::string text =
      "also simulated (ETTR; share of all nodes' time; where most of the rest goes; * = runs "
      "today)\n";
  for (const PlanCandidate& other : plan.others) {
    absl::StrAppendFormat(&text, "%c %-36s %s; %s; %s\n", other.runs_today() ? '*' : ' ',
                          other.priced.strategy.name, percent_text(other.estimates.ettr.mean),
                          percent_text(other.score), losses_text(other, plan.cluster.nodes));
  }
  return text;
}

Json candidate_json(const PlanCandidate& candidate) {
  return {{"strategy", as_json(candidate.priced.strategy)},
          {"spares", candidate.spares},
          {"score", candidate.score},
          {"runs_today", candidate.runs_today()},
          {"missing_in_runtime", candidate.missing},
          {"host_bytes_per_gpu", candidate.priced.host_bytes_per_gpu},
          {"estimates", as_json(candidate.estimates)}};
}

Json experts_json(const ExpertPlan& experts) {
  return {{"experts", experts.experts},
          {"replicas", experts.replicas},
          {"nodes_of_stage", experts.nodes},
          {"slots_of_node", experts.slots},
          {"distinct_nodes_least", experts.distinct_least},
          {"survives_that_many_lost", experts.survives_next}};
}

}  // namespace

std::string to_text(const ProtectionPlan& plan) {
  std::string text = absl::StrCat(job_text(plan), "best: ", plan.best.priced.strategy.name, "\n",
                                  settings_text(plan), expectation_text(plan), "why\n");
  for (const std::string& reason : plan.reasons) absl::StrAppend(&text, "  * ", reason, "\n");
  absl::StrAppend(&text, candidates_text(plan));
  for (const ProtectionRefused& refused : plan.refused)
    absl::StrAppend(&text, "not possible: ", refused.name, ": ", refused.reason, "\n");
  return text;
}

std::string to_json(const ProtectionPlan& plan) {
  Json json = {{"model", plan.model},
               {"nodes", plan.cluster.nodes},
               {"gpus", plan.cluster.gpus()},
               {"job_mtbf_seconds", plan.job_mtbf_seconds},
               {"whole_job_mtbf_seconds", plan.cluster.whole_job_mtbf_seconds()},
               {"job", as_json(plan.layout, plan.step)},
               {"batch", plan.batch},
               {"best", candidate_json(plan.best)},
               {"today", plan.today ? candidate_json(*plan.today) : Json()},
               {"tokens_per_second", plan.tokens_per_second},
               {"spares_wanted", plan.spares_wanted},
               {"spares_suffice_probability", plan.spares_suffice},
               {"experts", experts_json(plan.experts)},
               {"failure_domain", plan.failure_domain},
               {"simulated_seconds", plan.simulated_seconds},
               {"reasons", plan.reasons},
               {"saves_by_tier", tiers_json(plan)}};
  json["others"] = Json::array();
  for (const PlanCandidate& other : plan.others) json["others"].push_back(candidate_json(other));
  json["refused"] = Json::array();
  for (const ProtectionRefused& refused : plan.refused)
    json["refused"].push_back({{"name", refused.name}, {"reason", refused.reason}});
  return json.dump(2) + "\n";
}

namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kStepsMax = 1'000'000'000;  // of checkpoint.every_steps

void configure_nodes(const ProtectionPlan& plan, const PlanCandidate& candidate,
                     JobConfig& config) {
  const NodeReplacement replacement = candidate.priced.strategy.replacement;
  config.run.nodes = plan.cluster.nodes;
  config.run.racks = plan.cluster.racks;
  config.run.spares = candidate.spares;
  // A lost node takes all of its roles with it, and each wants a process.
  const int64_t lanes =
      std::accumulate(plan.layout.lanes.begin(), plan.layout.lanes.end(), int64_t{0});
  const int64_t roles = (lanes + plan.cluster.nodes - 1) / plan.cluster.nodes;
  if (replacement == NodeReplacement::kStandby)
    config.run.standbys = std::min<int64_t>(kJobNodesMax, candidate.spares * roles);
  config.elastic.enabled = replacement == NodeReplacement::kElastic;
  if (config.elastic.enabled)
    config.elastic.min_nodes =
        trained_job(plan.step.profile, plan.cluster).nodes_needed(/*is_elastic=*/true);
}

// A candidate that runs today, in the words of a job's configuration.
JobConfig configured(const ProtectionPlan& plan, const PlanCandidate& candidate) {
  const RunStrategy& strategy = candidate.priced.strategy;
  JobConfig config;
  ProtectionConfig& protection = config.protection;
  const bool is_sparse = strategy.protection == StateProtection::kSparse,
             is_dense = strategy.protection == StateProtection::kPeerMemory,
             has_gradients = strategy.protection == StateProtection::kGradients,
             is_lossy = strategy.protection == StateProtection::kPartialExperts;
  protection.strategy = is_sparse       ? StrategyKind::kSparse
                        : is_dense      ? StrategyKind::kPeerMemory
                        : has_gradients ? StrategyKind::kGradients
                        : is_lossy      ? StrategyKind::kPartialExperts
                                        : StrategyKind::kNone;
  if (is_lossy) protection.experts_saved = strategy.lossy.saved;
  protection.copies = strategy.copies;
  // A tenth more than expected, in whole MiB.
  protection.memory_budget =
      std::max<int64_t>(1, static_cast<int64_t>(
                               std::ceil(1.1 * candidate.priced.host_bytes_per_gpu / kMebibyte))) *
      kMebibyte;
  protection.window = is_sparse ? strategy.sparse.window : 0;
  protection.dense_every_steps = is_dense ? std::min(kStepsMax, strategy.save.every_steps) : 1;
  if (has_gradients)
    protection.base_every_steps = std::min(kBaseEveryStepsMax, strategy.save.every_steps);
  protection.ordering = candidate.priced.order == OrderKind::kPopularity
                            ? CaptureOrdering::kPopularity
                            : CaptureOrdering::kRatio;
  protection.copy_bandwidth = static_cast<int64_t>(plan.cluster.gpu.host_bytes_per_second);
  protection.mtbf_seconds = std::min(1e9, plan.job_mtbf_seconds);
  protection.failure_domain =
      plan.failure_domain == "rack" ? FailureDomain::kRack : FailureDomain::kNode;
  const bool saves_durably = is_lossy || protection.strategy == StrategyKind::kNone;
  config.checkpoint.every_steps = std::min(
      kStepsMax, saves_durably ? strategy.save.every_steps : strategy.fallback.every_steps);
  configure_nodes(plan, candidate, config);
  return config;
}

void append_keys(const std::string& table, const JobConfig& config,
                 const std::set<std::string>& names, std::string& text) {
  absl::StrAppend(&text, "\n[", table, "]\n");
  for (const ConfigKey& key : config_keys()) {
    if (!key.name.starts_with(table + ".")) continue;
    const std::string name = key.name.substr(table.size() + 1), value = key.write(config);
    if ((names.empty() || names.contains(name)) && !value.empty())
      absl::StrAppend(&text, name, " = ", value, "\n");
  }
}

}  // namespace

std::string to_toml(const ProtectionPlan& plan) {
  std::string text;
  const auto add_line = [&](const PlanCandidate& candidate, const std::string& what) {
    absl::StrAppend(&text, "# ", candidate.priced.strategy.name, ": ETTR ",
                    percent_text(candidate.estimates.ettr), what, "\n");
  };
  if (!plan.best.runs_today()) {
    add_line(plan.best,
             absl::StrCat(" - a forecast only: today's runtime has no ", plan.best.missing));
  }
  if (!plan.today)
    return text + "# Nothing that the runtime has today is possible on this cluster.\n";
  add_line(*plan.today, plan.best.runs_today() ? "" : " - the best that runs today");
  const JobConfig config = configured(plan, *plan.today);
  if (plan.layout.recompute != ActivationRecompute::kNone)
    absl::StrAppend(&text, "\n[train]\nrecompute = ", quoted(to_string(plan.layout.recompute)),
                    "\n");
  append_keys("protection", config, {}, text);
  append_keys("checkpoint", config, {"every_steps"}, text);
  if (plan.cluster.nodes > kJobNodesMax || plan.today->spares > kJobNodesMax) {
    return absl::StrCat(text, "\n# [run] has no room for ", plan.cluster.nodes, " nodes and ",
                        plan.today->spares, " spares.\n");
  }
  append_keys("run", config, {"nodes", "spares", "standbys", "racks"}, text);
  if (config.elastic.enabled) append_keys("elastic", config, {"enabled", "min_nodes"}, text);
  return text;
}

}  // namespace evermoe
