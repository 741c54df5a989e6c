#include "recovery/plan/renewal.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "recovery/plan/fresh_roles.h"

namespace evermoe {
namespace {

std::vector<Rank> holders_of_whole_state(const PlanInputs& in, WholeState state) {
  std::vector<Rank> holders;
  for (const Report& report : in.reports) {
    if (std::ranges::count(report.whole_states, state) > 0) holders.push_back(report.rank);
  }
  return holders;
}

bool can_begin_there(const PlanInputs& in, const Plan& plan, const Report& report) {
  if (!is_fresh(report)) return report.has_state && report.held_state == plan.state;
  return may_be_new(in, plan, report.rank) ||
         !holders_of_whole_state(in, {report.rank, plan.state}).empty();
}

bool lacks_log(const PlanInputs& in, Step oldest, int stage) {
  return std::ranges::any_of(in.topology->stage_group(stage), [&](Rank rank) {
    return in.reports[static_cast<size_t>(rank.value)].logged_since > oldest;
  });
}

// One of its processes is new, and what its role had sent went with the former one.
bool has_lost_its_log(const PlanInputs& in, const Plan& plan, int stage) {
  return std::ranges::any_of(in.topology->stage_group(stage), [&](Rank rank) {
    return is_fresh(in.reports[static_cast<size_t>(rank.value)]) && !may_be_new(in, plan, rank);
  });
}

// It runs steps again, for which it needs what such a neighbour has sent.
bool waits_for_what_is_lost(const PlanInputs& in, const Plan& plan, const Report& report) {
  if (report.catches_up_to < Step(0) || goes_back(in, plan, report.rank)) return false;
  const int stage = in.topology->role_of(report.rank).stage;
  return std::ranges::any_of(plan.rolled_back, [&](int other) {
    return std::abs(other - stage) == 1 && has_lost_its_log(in, plan, other);
  });
}

// Which one it is to be given whole, if any.
std::optional<Step> state_to_take(const PlanInputs& in, const Plan& plan, const Report& report) {
  std::optional<Step> state;
  if (goes_back(in, plan, report.rank)) {
    if (plan.renews && is_fresh(report)) state = plan.state;
  } else if (report.awaits_state >= Step(0)) {
    state = report.awaits_state;
  }
  return state;
}

}  // namespace

bool can_renew(const PlanInputs& in, const Plan& plan) {
  // In a change of lanes nobody knows who has moved already.
  const bool is_possible = in.strategy.keeps_copies() && in.go_back_reason.empty() &&
                           !changes_at(plan.membership, plan.state);
  return is_possible && std::ranges::all_of(in.reports, [&](const Report& report) {
           return goes_back(in, plan, report.rank) ? can_begin_there(in, plan, report)
                                                   : !waits_for_what_is_lost(in, plan, report);
         });
}

bool awaits_what_is_lost(const PlanInputs& in, const Report& report) {
  return report.awaits_state >= Step(0) &&
         holders_of_whole_state(in, {report.rank, report.awaits_state}).empty();
}

void add_whole_states(const PlanInputs& in, Plan& plan) {
  for (const Report& report : in.reports) {
    const std::optional<Step> state = state_to_take(in, plan, report);
    if (!state) continue;
    std::vector<Rank>& sources = plan.sources[static_cast<size_t>(report.rank.value)];
    sources = holders_of_whole_state(in, {report.rank, *state});
    if (sources.empty()) continue;
    if (std::ranges::count(sources, report.rank) > 0) {
      sources = {report.rank};
      plan.reasons.push_back(absl::StrCat("role ", in.topology->name_of(report.rank),
                                          " was given the state of step ", state->value,
                                          " by its former process"));
      continue;
    }
    plan.reasons.push_back(absl::StrCat(
        "role ", in.topology->name_of(report.rank), " takes the state of step ", state->value,
        " from ", absl::StrJoin(sources, ", then ", [&](std::string* out, Rank source) {
          *out += in.topology->name_of(source);
        })));
  }
}

void take_neighbours_along(const PlanInputs& in, Plan& plan) {
  if (in.strategy.log() != LogReach::kWindow) return;
  const Step oldest = plan.window >= Step(0) ? plan.window : plan.base;
  for (size_t i = 0; i < plan.rolled_back.size(); ++i) {
    for (const int stage : {plan.rolled_back[i] - 1, plan.rolled_back[i] + 1}) {
      const bool is_there = 0 <= stage && stage < in.topology->stages() &&
                            std::ranges::count(plan.rolled_back, stage) == 0;
      if (!is_there || !lacks_log(in, oldest, stage)) continue;
      plan.rolled_back.push_back(stage);
      plan.reasons.push_back(absl::StrCat("stage ", stage,
                                          " goes back, too: what it sent after step ", oldest.value,
                                          " is needed and went with a process"));
    }
  }
  std::ranges::sort(plan.rolled_back);
}

}  // namespace evermoe
