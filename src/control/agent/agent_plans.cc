#include "control/agent/agent_plans.h"

#include <iterator>
#include <utility>

namespace evermoe {
namespace {

void append_plan_actions(AgentActions& actions, AgentActions more) {
  actions.insert(actions.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

}  // namespace

PlanName AgentPlans::name() {
  if (!plan_) return {};
  if (!name_) name_ = name_of(*plan_);
  return *name_;
}

std::optional<AgentActions> AgentPlans::on_update(const PlanUpdate& update,
                                                  const AgentWorkers& workers) {
  absl::StatusOr<Plan> plan = apply_update(plan_ ? &*plan_ : nullptr, update);
  if (!plan.ok()) {
    plan_.reset();
    name_.reset();
    return std::nullopt;
  }
  if (exchange_.is_fetching() && update.to.empty()) {
    if (std::optional<AgentActions> fetched = adopt_fetched(*plan, workers)) return fetched;
  }
  AgentActions actions = forget_before(plan->view);
  append_plan_actions(actions, adopt(*std::move(plan), update.to, workers));
  return actions;
}

// It may have it already: from a controller before this one, or before its line broke.
AgentActions AgentPlans::on_fetch(absl::Duration now, const FetchPlan& fetch,
                                  const AgentWorkers& workers) {
  PlanActions ask = exchange_.fetch(now, fetch);
  if (plan_ && name() == fetch.plan) {
    if (std::optional<AgentActions> had = adopt_fetched(Plan(*plan_), workers))
      return *std::move(had);
  }
  return actions_of(std::move(ask));
}

AgentActions AgentPlans::on_wanted() const {
  if (!plan_) return {};
  return {ToController{{0, update_of(nullptr, *plan_)}}};
}

AgentActions AgentPlans::on_asked(absl::Duration now, StreamNumber asker, const PlanName& wanted) {
  return actions_of(exchange_.on_asked(now, asker, wanted, name()));
}

AgentActions AgentPlans::on_answer(const Envelope& envelope, const AgentWorkers& workers) {
  if (const auto* const update = std::get_if<PlanUpdate>(&envelope.message)) {
    const absl::StatusOr<Plan> plan = apply_update(nullptr, *update);
    if (plan.ok()) {
      if (std::optional<AgentActions> fetched = adopt_fetched(*plan, workers))
        return *std::move(fetched);
    }
  }
  return actions_of(exchange_.give_up("it told something else"));
}

// nullopt: it is not the one that is wanted.
std::optional<AgentActions> AgentPlans::adopt_fetched(const Plan& plan,
                                                      const AgentWorkers& workers) {
  std::optional<PlanExchange::Fetched> fetched = exchange_.take(plan);
  if (!fetched) return std::nullopt;
  AgentActions actions{StopAsking{}};
  append_plan_actions(actions, adopt(std::move(fetched->plan), fetched->to, workers));
  actions.emplace_back(ToController{{0, PlanHeld{name()}}});
  return actions;
}

AgentActions AgentPlans::adopt(Plan plan, const std::vector<PlanUpdate::Addressee>& to,
                               const AgentWorkers& workers) {
  plan_ = std::move(plan);
  name_.reset();
  AgentActions actions;
  for (const PlanUpdate::Addressee& one : to)
    append_plan_actions(actions,
                        workers.hand_on(one.start, SendOrder{one.rank, one.since, *plan_}));
  if (exchange_.is_anybody_waiting())
    append_plan_actions(actions, actions_of(exchange_.on_plan(name())));
  return actions;
}

AgentActions AgentPlans::actions_of(PlanActions actions) const {
  AgentActions all;
  for (PlanAction& action : actions) {
    if (const auto* const ask = std::get_if<AskController>(&action)) {
      all.emplace_back(ToController{{0, PlanWanted{ask->plan}}});
    } else if (auto* const answer = std::get_if<TellPlan>(&action)) {
      all.emplace_back(ToAskers{std::move(answer->to), {0, update_of(nullptr, *plan_)}});
    } else if (auto* const at = std::get_if<AskForPlan>(&action)) {
      all.emplace_back(std::move(*at));
    } else if (const auto* const cut = std::get_if<CutAsker>(&action)) {
      all.emplace_back(*cut);
    } else {
      all.emplace_back(std::move(std::get<StopAsking>(action)));
    }
  }
  return all;
}

}  // namespace evermoe
