#include "recovery/plan/fresh_roles.h"

#include <algorithm>

namespace evermoe {

bool rests(const MembershipHistory& history, Rank rank, Step state) {
  return std::ranges::binary_search(resting_at(history, state), rank);
}

bool is_fresh(const Report& report) { return report.stage_epoch == View(0); }

bool goes_back(const PlanInputs& in, const Plan& plan, Rank rank) {
  return std::ranges::count(plan.rolled_back, in.topology->role_of(rank).stage) > 0;
}

bool only_rests(const Plan& plan, Rank rank) {
  return rests(plan.membership, rank, plan.state) &&
         rests(plan.membership, rank, Step(plan.state.value - 1));
}

bool may_be_new(const PlanInputs& in, const Plan& plan, Rank rank) {
  if (!only_rests(plan, rank)) return false;
  if (in.strategy.restore != Restore::kStage) return true;
  const Step oldest = plan.window >= Step(0) ? plan.window : plan.base;
  return rests(plan.membership, rank, oldest) &&
         std::ranges::all_of(plan.membership, [&](const MembershipChange& change) {
           const bool counts = oldest < change.step && change.step <= plan.state;
           return !counts || std::ranges::binary_search(change.resting, rank);
         });
}

}  // namespace evermoe
