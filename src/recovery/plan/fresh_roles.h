// Roles that new processes play, in a plan that is being made (make_plan.h). Pure.
#pragma once

#include "recovery/plan/make_plan.h"

namespace evermoe {

bool rests(const MembershipHistory& history, Rank rank, Step state);
// A new process plays it, which has nothing.
bool is_fresh(const Report& report);
// The rank's stage begins anew.
bool goes_back(const PlanInputs& in, const Plan& plan, Rank rank);
// At the plan's state this role has nothing that anybody needs, and nothing to come to, not even in
// a change of lanes that may be under way there.
bool only_rests(const Plan& plan, Rank rank);
// Its stage does not go back for that role to be played by a new process: what the role has sent
// since the window is lost with the old one, and stages that run these steps again need it.
bool may_be_new(const PlanInputs& in, const Plan& plan, Rank rank);

}  // namespace evermoe
