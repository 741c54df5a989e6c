#include "forecast/protection_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "forecast/closed_forms.h"

namespace evermoe {
namespace {

// Failures that leave a vacancy until repair.
double vacancies_per_second(const ClusterSpec& cluster) {
  return (1 - cluster.failures.crash_share) * cluster.nodes / cluster.failures.node_mtbf_seconds;
}

bool never_needs_spares(const ClusterSpec& cluster) {
  return cluster.failures.repair_seconds == 0 || cluster.failures.crash_share == 1;
}

class Planner {
 public:
  explicit Planner(ProtectionPlan& plan) : plan_(plan), cluster_(plan.cluster), budget_(plan.budget) {}

  absl::Status run() {
    plan_.spares_wanted = never_needs_spares(cluster_)
                              ? 0 : spares_for(vacancies_per_second(cluster_), cluster_.failures.repair_seconds, budget_.spares_probability);
    const std::vector<PricedProtection> priced = price_all();
    if (priced.empty()) return nothing_fits();
    const PricedProtection& best = choose_protection(priced);
    choose_replacement(best);
    std::sort(plan_.others.begin(), plan_.others.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    finish();
    return absl::OkStatus();
  }

 private:
  const JobProfile& job() const { return plan_.step.profile; }

  std::vector<PricedProtection> price_all() {
    std::vector<PricedProtection> priced;
    for (Priced result : {price_sparse(job(), cluster_, budget_), price_peer_memory(job(), cluster_, budget_),
                          price_durable(job(), cluster_, budget_), price_partial_experts(job(), cluster_, budget_)}) {
      if (auto* refused = std::get_if<ProtectionRefused>(&result)) {
        plan_.refused.push_back(std::move(*refused));
      } else {
        priced.push_back(std::get<PricedProtection>(std::move(result)));
      }
    }
    return priced;
  }

  absl::Status nothing_fits() const {
    std::string why;
    for (const ProtectionRefused& refused : plan_.refused) absl::StrAppend(&why, why.empty() ? "" : "; ", refused.name, " ", refused.reason);
    return NoCapacity(absl::StrCat("no protection is to be had: ", why));
  }

  PlanCandidate simulate(const PricedProtection& priced, NodeReplacement replacement, int spares) const {
    PlanCandidate candidate{.priced = priced, .spares = spares};
    RunStrategy& strategy = candidate.priced.strategy;
    strategy.replacement = replacement;
    strategy.migrates = replacement == NodeReplacement::kStandby && spares > 0;
    strategy.name = absl::StrCat(priced.strategy.name, ", ", to_string(replacement));
    if (spares > 0) absl::StrAppend(&strategy.name, ", ", spares, spares == 1 ? " spare" : " spares");
    const auto source = [&](uint64_t seed) { return draw_availability(cluster_.failures, cluster_.nodes + spares, cluster_.racks, seed); };
    candidate.estimates = estimate_runs(trained_job(job(), cluster_), strategy, {.wall_seconds = plan_.simulated_seconds}, source,
                                        budget_.simulated_runs, 1);
    candidate.score = candidate.estimates.ettr.mean * cluster_.nodes / (cluster_.nodes + spares);
    return candidate;
  }

  // The number that suffices with the wanted probability, as far as the budget goes.
  int spares_enough() const { return within_budget(plan_.spares_wanted); }
  int within_budget(int spares) const { return budget_.spares_max < 0 ? spares : std::min(spares, budget_.spares_max); }

  // All with the same standbys, so that only the protections differ.
  const PricedProtection& choose_protection(const std::vector<PricedProtection>& priced) {
    std::vector<PlanCandidate> candidates;
    for (const PricedProtection& one : priced) candidates.push_back(simulate(one, NodeReplacement::kStandby, spares_enough()));
    const auto best = std::max_element(candidates.begin(), candidates.end(),
                                       [](const auto& a, const auto& b) { return a.score < b.score; });
    const auto index = best - candidates.begin();
    plan_.best = *best;
    candidates.erase(best);
    plan_.others = std::move(candidates);
    return priced[static_cast<size_t>(index)];
  }

  // Fewer spares wait longer, more idle more; in between lies what is worth it.
  void choose_replacement(const PricedProtection& priced) {
    const int enough = spares_enough();
    std::set<int> numbers;
    if (enough > 0) numbers = {0, enough, within_budget(enough + std::max(1, enough / 4)), within_budget(enough + std::max(2, enough / 2))};
    for (int spares = 1; spares < enough; spares *= 2) numbers.insert(spares);
    for (const int spares : numbers) {
      if (spares != enough && spares > 0) consider(simulate(priced, NodeReplacement::kStandby, spares));
    }
    consider(simulate(priced, NodeReplacement::kRestart, enough));
    if (enough > 0) consider(simulate(priced, NodeReplacement::kRestart, 0));
    choose_elastic(priced, enough);
  }

  void choose_elastic(const PricedProtection& priced, int enough) {
    if (!budget_.elastic || never_needs_spares(cluster_)) return;
    const int unit = trained_job(job(), cluster_).elastic_unit;
    if (cluster_.nodes < 2 * unit) {
      plan_.refused.push_back({"elastic", "a stage has one node only: without it the pipeline cannot go on"});
      return;
    }
    for (const int spares : std::set<int>{0, within_budget(unit), enough}) consider(simulate(priced, NodeReplacement::kElastic, spares));
  }

  void consider(PlanCandidate candidate) {
    if (candidate.score > plan_.best.score) std::swap(candidate, plan_.best);
    plan_.others.push_back(std::move(candidate));
  }

  void finish() {
    const PlanCandidate& best = plan_.best;
    const double needing = vacancies_per_second(cluster_) * cluster_.failures.repair_seconds;
    plan_.spares_suffice = never_needs_spares(cluster_) ? 1 : poisson_at_most(needing, best.spares);
    plan_.host_bytes_per_gpu = best.priced.host_bytes_per_gpu;
    plan_.tokens_per_second = best.estimates.ettr.mean * job().tokens_per_step / job().step_seconds;
    plan_.failure_domain = cluster_.racks > 1 && cluster_.failures.rack_mtbf_seconds > 0 ? "rack" : "node";
    plan_.experts = plan_experts(job(), plan_.layout);
    add_reasons();
  }

  void add_reasons() {
    const PlanCandidate& best = plan_.best;
    std::vector<std::string>& reasons = plan_.reasons;
    reasons.push_back(absl::StrFormat("%s keeps %.2f %% of the time for training (95 %% interval %.2f to %.2f)", best.priced.strategy.name,
                                      100 * best.estimates.ettr.mean, 100 * best.estimates.ettr.low, 100 * best.estimates.ettr.high));
    if (!plan_.others.empty()) {
      const PlanCandidate& next = plan_.others.front();
      reasons.push_back(absl::StrFormat("next best: %s with %.2f %%, %.2f points less of all nodes' time", next.priced.strategy.name,
                                        100 * next.estimates.ettr.mean, 100 * (best.score - next.score)));
    }
    for (const std::string& reason : best.priced.reasons) reasons.push_back(reason);
    reasons.push_back(plan_.experts.reason);
    if (best.spares > 0) {
      reasons.push_back(absl::StrFormat("%d spare nodes suffice until repair %.2f %% of the time (%.1f nodes are under repair on average)",
                                        best.spares, 100 * plan_.spares_suffice,
                                        vacancies_per_second(cluster_) * cluster_.failures.repair_seconds));
    }
    if (best.is_lossy()) reasons.push_back("LOSSY: experts come back from older states; every exact strategy scores less");
  }

  ProtectionPlan& plan_;
  const ClusterSpec& cluster_;
  const PlanBudget& budget_;
};

}  // namespace

double simulated_seconds(const ClusterSpec& cluster) {
  return std::max({300 * cluster.job_mtbf_seconds(), 20 * cluster.failures.repair_seconds, 86400.0});
}

absl::StatusOr<ProtectionPlan> plan_protection(const std::string& model, const JobLayout& layout, const StepForecast& step,
                                               const ClusterSpec& cluster, const PlanBudget& budget) {
  RETURN_IF_ERROR(check(budget));
  RETURN_IF_ERROR(check(cluster.failures, cluster.racks));
  ProtectionPlan plan{.model = model, .cluster = cluster, .layout = layout, .step = step, .budget = budget};
  plan.job_mtbf_seconds = cluster.job_mtbf_seconds();
  plan.simulated_seconds = simulated_seconds(cluster);
  RETURN_IF_ERROR(Planner(plan).run());
  return plan;
}

absl::StatusOr<ProtectionPlan> plan_protection(const PlanInput& input) {
  RETURN_IF_ERROR(check(input.budget));
  ASSIGN_OR_RETURN(const PlannedStep planned, plan_step(input.model, input.cluster));
  return plan_protection(input.model.name, planned.layout, planned.step, input.cluster, input.budget);
}

}  // namespace evermoe
