#include "planner/plan/expert_plan.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "experts/placement/replica_placement.h"
#include "experts/placement/survival.h"

namespace evermoe {
namespace {

std::string reason_of(const ExpertPlan& plan) {
  if (plan.experts == 0) return "the model has no experts";
  if (plan.replicas == 1)
    return absl::StrFormat(
        "its stage has one instance of each of %d experts: those of a failed node come back from "
        "copies",
        plan.experts);
  if (plan.nodes == 0)
    return absl::StrFormat("%d replicas of each of %d experts, on lanes that share nodes",
                           plan.replicas, plan.experts);
  if (plan.distinct_least < 2)
    return absl::StrFormat("%d replicas of each of %d experts, some on one node only",
                           plan.replicas, plan.experts);
  const int sure = plan.distinct_least - 1;
  const std::string text = absl::StrFormat(
      "%d replicas of each of %d experts: every expert survives any %s of a stage", plan.replicas,
      plan.experts, sure == 1 ? "failed node" : absl::StrFormat("%d failed nodes", sure));
  if (plan.survives_next <= 0)
    return absl::StrFormat("%s; any %d can lose one", text, plan.distinct_least);
  return absl::StrFormat(
      "%s; after %d failed nodes all experts are still there with probability %.4g", text,
      plan.distinct_least, plan.survives_next);
}

}  // namespace

ExpertPlan plan_experts(const JobProfile& job, const JobLayout& layout) {
  const int lanes = *std::min_element(layout.lanes.begin(), layout.lanes.end());
  ExpertPlan plan{.experts = static_cast<int>(job.experts), .replicas = layout.expert_replicas};
  const bool fills_nodes = lanes % job.lanes_per_node == 0;
  const int64_t slots = int64_t{plan.experts} * plan.replicas;
  if (plan.experts > 0 && fills_nodes && slots % (lanes / job.lanes_per_node) == 0) {
    plan.nodes = lanes / job.lanes_per_node;
    plan.slots = static_cast<int>(slots / plan.nodes);
    const auto placed = place_replicas(
        std::vector<int>(static_cast<size_t>(plan.experts), plan.replicas), plan.nodes, plan.slots);
    CHECK(placed.ok()) << placed.status();
    plan.distinct_least = placed->distinct_least;
    const auto curve = plan.nodes <= kSurvivalNodesMax
                           ? survival_curve(placed->experts_of, plan.experts)
                           : absl::UnknownError("");
    if (curve.ok())
      plan.survives_next =
          curve->survived[static_cast<size_t>(std::min(plan.nodes, plan.distinct_least))];
  }
  plan.reason = reason_of(plan);
  return plan;
}

}  // namespace evermoe
