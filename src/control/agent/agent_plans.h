// The newest plan of a node: from the controller, whole or as what changes the one before, or from
// another agent (plan_exchange.h); for the workers of the node, and for agents that ask for it.
// Pure: events and time in, actions out.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/agent/agent_actions.h"
#include "control/agent/agent_workers.h"
#include "control/agent/plan_exchange.h"

namespace evermoe {

class AgentPlans {
 public:
  // The name of the newest one; PlanName{}: none has come.
  PlanName name();

  // ---- from the controller

  // nullopt: it does not fit what is here, which is forgotten. The line has gone wrong, and on the
  // next one the plan comes whole.
  std::optional<AgentActions> on_update(const PlanUpdate& update, const AgentWorkers& workers);
  AgentActions on_fetch(absl::Duration now, const FetchPlan& fetch, const AgentWorkers& workers);
  // It wants to know the plan of a controller before it.
  AgentActions on_wanted() const;
  // Nobody needs a plan any more that is older than `view`.
  AgentActions forget_before(View view) { return actions_of(exchange_.forget_before(view)); }
  // The controller is gone.
  AgentActions forget() { return actions_of(exchange_.forget()); }

  // ---- other agents

  AgentActions on_asked(absl::Duration now, StreamNumber asker, const PlanName& wanted);
  void on_asker_gone(StreamNumber asker) { exchange_.on_asker_gone(asker); }
  // From the one that this agent asks.
  AgentActions on_answer(const Envelope& envelope, const AgentWorkers& workers);
  AgentActions on_answerer_gone(const std::string& why) {
    return actions_of(exchange_.give_up(why));
  }

  AgentActions on_time(absl::Duration now) { return actions_of(exchange_.on_time(now)); }
  absl::Duration next_due() const { return exchange_.next_due(); }

 private:
  std::optional<AgentActions> adopt_fetched(const Plan& plan, const AgentWorkers& workers);
  AgentActions adopt(Plan plan, const std::vector<PlanUpdate::Addressee>& to,
                     const AgentWorkers& workers);
  AgentActions actions_of(PlanActions actions) const;

  std::optional<Plan> plan_;
  std::optional<PlanName> name_;  // once somebody wanted to know
  PlanExchange exchange_;
};

}  // namespace evermoe
