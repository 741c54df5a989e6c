#include "planner/plan/protection_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "planner/failures/spare_demand.h"

namespace evermoe {
namespace {

// Beyond so many spares for each node of the job nobody looks for more.
constexpr int kSparesOfNode = 2;

bool never_needs_spares(const ClusterSpec& cluster) {
  return mean_down(cluster.failures, cluster.nodes, cluster.racks) == 0;
}

class Planner {
 public:
  explicit Planner(ProtectionPlan& plan)
      : plan_(plan), cluster_(plan.cluster), budget_(plan.budget) {}

  absl::Status run() {
    find_spares_wanted();
    plan_.experts = plan_experts(job(), plan_.layout);
    const std::vector<PricedProtection> priced = price_all();
    if (priced.empty()) return nothing_fits();
    for (const PricedProtection& one : priced)
      consider(one, NodeReplacement::kStandby, spares_enough());
    consider(price_nothing(job(), cluster_), NodeReplacement::kRestart, 0);
    choose_replacement(best_candidate().priced);
    choose_elastic(priced);
    choose_today(priced);
    finish();
    return absl::OkStatus();
  }

 private:
  const JobProfile& job() const { return plan_.step.profile; }

  void find_spares_wanted() {
    const int most = kSparesOfNode * cluster_.nodes;
    const std::optional<int> spares = spares_needed(
        cluster_.failures, cluster_.nodes, cluster_.racks, budget_.spares_probability, most);
    plan_.spares_wanted = spares.value_or(most);
    if (spares) return;
    plan_.refused.push_back(
        {"enough spares", absl::StrFormat("not even %d make up for all failed nodes %.4g %% of the "
                                          "time: whole racks are down too often",
                                          most, 100 * budget_.spares_probability)});
  }

  std::vector<PricedProtection> price_all() {
    std::vector<PricedProtection> priced;
    for (Priced result :
         {price_sparse(job(), cluster_, budget_), price_peer_memory(job(), cluster_, budget_),
          price_gradients(job(), cluster_, budget_), price_durable(job(), cluster_, budget_),
          price_partial_experts(job(), cluster_, budget_),
          price_replicas(job(), cluster_, budget_, plan_.experts)}) {
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
    for (const ProtectionRefused& refused : plan_.refused)
      absl::StrAppend(&why, why.empty() ? "" : "; ", refused.name, " ", refused.reason);
    return NoCapacity(absl::StrCat("no protection is possible: ", why));
  }

  // `priced` may be a candidate's: its own replacement does not matter. Standbys without spares are
  // restarts.
  void consider(const PricedProtection& priced, NodeReplacement wanted, int spares) {
    const NodeReplacement replacement =
        wanted == NodeReplacement::kStandby && spares == 0 ? NodeReplacement::kRestart : wanted;
    PlanCandidate candidate{.priced = priced, .spares = spares};
    RunStrategy& strategy = candidate.priced.strategy;
    strategy.replacement = replacement;
    strategy.migrates = can_move_roles(strategy.protection);
    strategy.name = absl::StrCat(protection_name(priced), ", ", to_string(replacement));
    if (spares > 0)
      absl::StrAppend(&strategy.name, ", ", spares, spares == 1 ? " spare" : " spares");
    if (!known_.insert(strategy.name).second) return;
    candidate.missing = together(plan_.job_missing, missing_in_runtime(strategy));
    const auto source = [&](uint64_t seed) {
      return draw_availability(cluster_.failures, cluster_.nodes + spares, cluster_.racks, seed);
    };
    candidate.estimates =
        estimate_runs(trained_job(job(), cluster_), strategy,
                      {.wall_seconds = plan_.simulated_seconds}, source, budget_.simulated_runs, 1);
    candidate.score = candidate.estimates.ettr.mean * cluster_.nodes / (cluster_.nodes + spares);
    candidates_.push_back(std::move(candidate));
  }

  bool racks_fail() const { return cluster_.racks > 0 && cluster_.failures.rack_mtbf_seconds > 0; }

  static std::string together(const std::string& a, const std::string& b) {
    return a.empty() || b.empty() ? a + b : absl::StrCat(a, " and ", b);
  }

  static std::string protection_name(const PricedProtection& priced) {
    return priced.strategy.name.substr(0, priced.strategy.name.find(','));
  }

  // The first of equals.
  template <typename Allowed>
  std::optional<PlanCandidate> best_of(Allowed allowed) const {
    const PlanCandidate* best = nullptr;
    for (const PlanCandidate& candidate : candidates_) {
      if (allowed(candidate) && (best == nullptr || candidate.score > best->score))
        best = &candidate;
    }
    return best == nullptr ? std::nullopt : std::optional(*best);
  }
  PlanCandidate best_candidate() const {
    return *best_of([](const auto&) { return true; });
  }

  // The number that suffices with the wanted probability, as far as the budget goes.
  int spares_enough() const { return within_budget(plan_.spares_wanted); }
  int within_budget(int spares) const {
    return budget_.spares_max < 0 ? spares : std::min(spares, budget_.spares_max);
  }

  // Numbers of spares to try, besides what is enough. Fewer wait longer, more idle more; in between
  // lies what is worth it.
  std::set<int> spares_choices() const {
    const int enough = spares_enough();
    if (enough == 0) return {0};
    std::set<int> numbers{0, enough, within_budget(enough + std::max(1, enough / 4)),
                          within_budget(enough + std::max(2, enough / 2))};
    for (int spares = 1; spares < enough; spares *= 2) numbers.insert(spares);
    return numbers;
  }

  void choose_replacement(const PricedProtection& priced) {
    for (const int spares : spares_choices()) consider(priced, NodeReplacement::kStandby, spares);
    consider(priced, NodeReplacement::kRestart, spares_enough());
  }

  // The best protection so far, and live replicas, which are made for it.
  void choose_elastic(const std::vector<PricedProtection>& priced) {
    if (!budget_.elastic || never_needs_spares(cluster_)) return;
    const int unit = trained_job(job(), cluster_).elastic_unit;
    if (cluster_.nodes < 2 * unit) {
      plan_.refused.push_back(
          {"elastic", "a stage has one node only: without it the pipeline cannot go on"});
      return;
    }
    can_shrink_ = true;
    consider_elastic(best_candidate().priced);
    for (const PricedProtection& one : priced) {
      if (one.strategy.protection == StateProtection::kReplicas) consider_elastic(one);
    }
  }

  void consider_elastic(const PricedProtection& one) {
    const Priced result = price_elastic(one, job(), cluster_, budget_);
    if (const auto* refused = std::get_if<ProtectionRefused>(&result))
      return plan_.refused.push_back(*refused);
    const int unit = trained_job(job(), cluster_).elastic_unit;
    for (const int spares : std::set<int>{0, within_budget(unit), spares_enough()})
      consider(std::get<PricedProtection>(result), NodeReplacement::kElastic, spares);
  }

  // Protections of the runtime with cold restarts, too; and the replacement of the best of those
  // that run today, where the best of all does not.
  void choose_today(const std::vector<PricedProtection>& priced) {
    for (const PricedProtection& one : priced) {
      if (missing_in_runtime(one.strategy).empty())
        consider(one, NodeReplacement::kRestart, spares_enough());
    }
    const auto is_today = [](const PlanCandidate& candidate) {
      return candidate.runs_today() && !candidate.is_unprotected();
    };
    const std::optional<PlanCandidate> best = best_of(is_today);
    if (!best) return;
    if (!best_candidate().runs_today()) {
      choose_replacement(best->priced);
      if (can_shrink_) consider_elastic(best->priced);
    }
    plan_.today = best_of(is_today);
  }

  void finish() {
    plan_.best = best_candidate();
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    candidates_.erase(candidates_.begin());
    plan_.others = std::move(candidates_);
    const PlanCandidate& best = plan_.best;
    plan_.spares_suffice =
        at_most_down(cluster_.failures, cluster_.nodes + best.spares, cluster_.racks, best.spares);
    plan_.host_bytes_per_gpu = best.priced.host_bytes_per_gpu;
    plan_.tokens_per_second = best.estimates.ettr.mean * job().tokens_per_step / job().step_seconds;
    plan_.failure_domain =
        cluster_.racks > 1 && cluster_.failures.rack_mtbf_seconds > 0 ? "rack" : "node";
    add_reasons();
  }

  void add_reasons() {
    const PlanCandidate& best = plan_.best;
    std::vector<std::string>& reasons = plan_.reasons;
    reasons.push_back(
        absl::StrFormat("%s keeps %.2f %% of the time for training (95 %% interval %.2f to %.2f)",
                        best.priced.strategy.name, 100 * best.estimates.ettr.mean,
                        100 * best.estimates.ettr.low, 100 * best.estimates.ettr.high));
    if (!plan_.others.empty()) {
      const PlanCandidate& next = plan_.others.front();
      reasons.push_back(
          absl::StrFormat("next best: %s with %.2f %%, %.2f points less of all nodes' time",
                          next.priced.strategy.name, 100 * next.estimates.ettr.mean,
                          100 * (best.score - next.score)));
    }
    for (const std::string& reason : best.priced.reasons) reasons.push_back(reason);
    if (!best.priced.fallback_reason.empty()) reasons.push_back(best.priced.fallback_reason);
    reasons.push_back(plan_.experts.reason);
    if (!best.runs_today()) {
      reasons.push_back(
          absl::StrCat("a forecast only, today's runtime has no ", best.missing,
                       plan_.today ? absl::StrFormat("; the best that it runs, %s, keeps %.2f %%",
                                                     plan_.today->priced.strategy.name,
                                                     100 * plan_.today->estimates.ettr.mean)
                                   : std::string("; nothing that it runs is possible")));
    }
    if (best.spares > 0) {
      reasons.push_back(absl::StrFormat(
          "%d spare nodes make up for all failed ones %.2f %% of the time (%.1f nodes are down on "
          "average%s)",
          best.spares, 100 * plan_.spares_suffice,
          mean_down(cluster_.failures, cluster_.nodes + best.spares, cluster_.racks),
          racks_fail() ? ", racks included" : ""));
    }
    if (best.is_lossy())
      reasons.push_back(
          "LOSSY: experts come back from older states; every exact strategy scores less");
  }

  ProtectionPlan& plan_;
  const ClusterSpec& cluster_;
  const PlanBudget& budget_;
  std::vector<PlanCandidate> candidates_;
  std::set<std::string> known_;  // their names
  bool can_shrink_ = false;      // the job may go on with fewer nodes
};

}  // namespace

double simulated_seconds(const ClusterSpec& cluster) {
  const double repair =
      std::max(cluster.failures.repair_seconds, cluster.failures.rack_repair_seconds);
  return std::max({300 * cluster.job_mtbf_seconds(), 20 * repair, 86400.0});
}

namespace {

absl::StatusOr<ProtectionPlan> completed(ProtectionPlan plan) {
  RETURN_IF_ERROR(check(plan.budget));
  RETURN_IF_ERROR(check(plan.cluster.failures, plan.cluster.racks));
  plan.job_mtbf_seconds = plan.cluster.job_mtbf_seconds();
  plan.simulated_seconds = simulated_seconds(plan.cluster);
  RETURN_IF_ERROR(Planner(plan).run());
  return plan;
}

}  // namespace

absl::StatusOr<ProtectionPlan> plan_protection(const std::string& model, const JobLayout& layout,
                                               const StepForecast& step, const ClusterSpec& cluster,
                                               const PlanBudget& budget) {
  return completed({.model = model,
                    .cluster = cluster,
                    .layout = layout,
                    .step = step,
                    .batch = "as given",
                    .budget = budget});
}

absl::StatusOr<ProtectionPlan> plan_protection(const PlanInput& input) {
  RETURN_IF_ERROR(check(input.budget));
  ASSIGN_OR_RETURN(PlannedStep planned, plan_step(input.model, input.cluster));
  std::string missing = missing_in_runtime(input.model, planned.layout);
  return completed({.model = input.model.name,
                    .cluster = input.cluster,
                    .layout = planned.layout,
                    .step = std::move(planned.step),
                    .batch = std::move(planned.batch),
                    .job_missing = std::move(missing),
                    .budget = input.budget});
}

}  // namespace evermoe
