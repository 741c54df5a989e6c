// Whether stages can begin anew at the newest state without going back (Plan::renews), and which
// stages have to go back with their neighbours because of that. Parts of make_plan(). Pure.
#pragma once

#include "recovery/plan/make_plan.h"

namespace evermoe {

// Whether all stages that begin anew by this plan, so far, can do so at its state: their ranks that
// live have it, somebody has it whole of those that are new, and nobody needs what those sent
// before it. REQUIRES: the plan's state,
// membership and rolled_back are there.
bool can_renew(const PlanInputs& in, const Plan& plan);

// By an earlier plan that renewed it takes a state that nobody has whole any more.
bool awaits_what_is_lost(const PlanInputs& in, const Report& report);

// Who gives their states to those that are new in a stage that renews, and to those that still take
// theirs by an earlier plan.
void add_whole_states(const PlanInputs& in, Plan& plan);

// A process that came to its stage without going back has not sent what its role had sent before,
// and neighbours that go back need that: its stage goes with them and sends it again.
void take_neighbours_along(const PlanInputs& in, Plan& plan);

}  // namespace evermoe
