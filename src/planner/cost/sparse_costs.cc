// price_sparse(): one window for the whole job.
#include <algorithm>
#include <cmath>

#include "planner/cost/protection_costs.h"

namespace evermoe {
namespace {

constexpr char kSparseName[] = "sparse";
constexpr int kWindowMax = 32;

bool same(const std::vector<OperatorProfile>& a, const std::vector<OperatorProfile>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const OperatorProfile& x, const OperatorProfile& y) {
                      return x.expert == y.expert && x.cost == y.cost &&
                             x.forward_seconds == y.forward_seconds &&
                             x.gradient_seconds == y.gradient_seconds;
                    });
}

// Most stages are alike: planning one of each kind is enough.
std::vector<std::vector<OperatorProfile>> different_stages(const JobProfile& job) {
  std::vector<std::vector<OperatorProfile>> stages;
  for (const auto& operators : job.operators_of_stage) {
    const bool known = std::any_of(stages.begin(), stages.end(),
                                   [&](const auto& other) { return same(operators, other); });
    if (!known) stages.push_back(operators);
  }
  return stages;
}

WindowPlanInput input_of(const JobProfile& job, const ClusterSpec& cluster,
                         const PlanBudget& budget, const std::vector<OperatorProfile>& operators) {
  WindowPlanInput input{.operators = operators, .popularity = job.popularity};
  input.step = {.step_seconds = job.step_seconds,
                .update_seconds = job.update_seconds,
                .copy_bytes_per_second = cluster.gpu.host_bytes_per_second,
                .log_bytes = job.log_bytes,
                .peer_bytes_per_second = cluster.nic_per_gpu()};
  input.recovery = {.detect_seconds = cluster.recovery.detect,
                    .restart_seconds = cluster.recovery.restart,
                    .load_seconds = load_memory_seconds(job, cluster),
                    .stage_share = static_cast<double>(job.rounds) / (job.rounds + job.stages - 1),
                    .mtbf_seconds = cluster.job_mtbf_seconds()};
  const int copies = std::min(budget.copies, job.nodes - 1);
  input.limits = {.length_min = std::max(1, budget.window),
                  .length_max = budget.window > 0 ? budget.window : kWindowMax,
                  .copies = copies,
                  .copies_min = std::min(1, copies),
                  .memory_budget_bytes = static_cast<int64_t>(host_budget_bytes(cluster, budget)),
                  .stall_share_max = budget.stall_share_max};
  return input;
}

// Catch-up's steps less what frozen operators leave out, if all stages took part.
double conversion_seconds(const JobProfile& job, const std::vector<OperatorProfile>& operators,
                          const WindowPlan& plan) {
  double full = 0;
  for (const OperatorProfile& op : operators) full += op.forward_seconds + op.gradient_seconds;
  const double saved =
      full > 0 ? frozen_seconds_saved(operators, plan.order, plan.window) / full : 0;
  return job.step_seconds * std::max(0.0, plan.window.length() - 1 - saved);
}

struct StagePlans {
  std::vector<WindowPlan> plans;  // of the different stages
  int longest = 0;
  int copies = 0;  // the fewest
};

using Plans = std::variant<StagePlans, WindowPlanInfeasible>;

Plans plan_stages(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget,
                  const std::vector<std::vector<OperatorProfile>>& stages, int length_min,
                  int copies) {
  StagePlans result{.copies = copies};
  for (const auto& operators : stages) {
    WindowPlanInput input = input_of(job, cluster, budget, operators);
    input.limits.copies = copies;
    input.limits.copies_min = std::min(copies, input.limits.copies_min);
    if (length_min > 0) input.limits.length_min = input.limits.length_max = length_min;
    auto plan = plan_window(input);
    if (const auto* why = std::get_if<WindowPlanInfeasible>(&plan)) return *why;
    result.plans.push_back(std::get<WindowPlan>(std::move(plan)));
    result.longest = std::max(result.longest, result.plans.back().window.length());
    result.copies = std::min(result.copies, result.plans.back().copies);
  }
  return result;
}

// All stages at the longest of their windows, with as many copies as the tightest of them keeps.
Plans plan_world(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget,
                 const std::vector<std::vector<OperatorProfile>>& stages) {
  const int wanted = std::min(budget.copies, job.nodes - 1);
  Plans free = plan_stages(job, cluster, budget, stages, 0, wanted);
  const auto* plans = std::get_if<StagePlans>(&free);
  if (plans == nullptr) return free;
  Plans aligned = plan_stages(job, cluster, budget, stages, plans->longest, plans->copies);
  const auto* together = std::get_if<StagePlans>(&aligned);
  if (together == nullptr || together->copies == plans->copies) return aligned;
  return plan_stages(job, cluster, budget, stages, plans->longest, together->copies);
}

void add_plan(const JobProfile& job, const std::vector<OperatorProfile>& operators,
              const WindowPlan& plan, PricedProtection& priced) {
  SparseCapture& sparse = priced.strategy.sparse;
  sparse.conversion_seconds =
      std::max(sparse.conversion_seconds, conversion_seconds(job, operators, plan));
  priced.stall_share = std::max(priced.stall_share, plan.stall_share);
  const auto bytes = static_cast<double>(plan.memory.total_bytes());
  if (bytes <= priced.host_bytes_per_gpu) return;
  priced.host_bytes_per_gpu = bytes;
  priced.order = plan.order_kind;
  priced.reasons = plan.reasons;
}

}  // namespace

Priced price_sparse(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget) {
  if (job.nodes < 2 && budget.copies > 0)
    return ProtectionRefused{kSparseName, "there is no other node for copies"};
  const auto stages = different_stages(job);
  const Plans world = plan_world(job, cluster, budget, stages);
  if (const auto* why = std::get_if<WindowPlanInfeasible>(&world))
    return ProtectionRefused{kSparseName, why->reason};
  const auto& plans = std::get<StagePlans>(world);
  PricedProtection priced;
  RunStrategy& strategy = priced.strategy;
  strategy = {.name = kSparseName, .protection = StateProtection::kSparse, .copies = plans.copies};
  strategy.sparse.window = plans.longest;
  double busiest = 0;  // seconds of a mean step in which a link carries captures, copies or logs
  for (size_t i = 0; i < stages.size(); ++i) {
    const WindowPlan& plan = plans.plans[i];
    add_plan(job, stages[i], plan, priced);
    const double bytes = static_cast<double>(plan.window.total_bytes) / plan.window.length();
    const double to_host =
        (bytes + static_cast<double>(job.log_bytes)) / cluster.gpu.host_bytes_per_second;
    busiest = std::max({busiest, to_host, plan.copies * bytes / cluster.nic_per_gpu()});
    // Copies of the largest step that take longer than a step arrive one later.
    const double peak =
        plan.copies * static_cast<double>(plan.window.peak_bytes) / cluster.nic_per_gpu();
    strategy.sparse.lag_steps =
        std::max(strategy.sparse.lag_steps, peak > job.step_seconds ? 1 : 0);
  }
  strategy.step_overhead_share = priced.stall_share + cluster.capture_overhead_share *
                                                          std::min(1.0, busiest / job.step_seconds);
  add_fallback(job, cluster, priced);
  strategy.recovery = recovery_seconds(job, cluster);
  priced.stall_share = strategy.step_overhead_share;
  return priced;
}

}  // namespace evermoe
