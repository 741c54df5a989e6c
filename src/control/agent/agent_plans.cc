// Plans: those of views, for the workers; and those that agents get from each other.
#include "control/agent/agent_core.h"

namespace evermoe {

// ---- from the controller

// One that does not fit what is here is of a line that has gone wrong: on the next one it comes
// whole.
void AgentCore::handle(const Envelope&, const PlanUpdate& update) {
  absl::StatusOr<Plan> plan = apply_update(plan_ ? &*plan_ : nullptr, update);
  if (!plan.ok()) {
    plan_.reset();
    plan_name_.reset();
    return lose_controller();
  }
  if (plans_.is_fetching() && update.to.empty() && adopt_fetched(*plan)) return;
  act(plans_.forget_before(plan->view));
  adopt(*std::move(plan), update.to);
}

// It may have it already: from a controller before this one, or before its line broke.
void AgentCore::handle(const Envelope&, const FetchPlan& fetch) {
  PlanActions ask = plans_.fetch(now_, fetch);
  if (!plan_ || plan_name() != fetch.plan || !adopt_fetched(Plan(*plan_))) act(std::move(ask));
}

void AgentCore::handle(const Envelope&, const PlanWanted&) {
  if (plan_) tell(update_of(nullptr, *plan_));
}

bool AgentCore::adopt_fetched(const Plan& plan) {
  std::optional<PlanExchange::Fetched> fetched = plans_.take(plan);
  if (!fetched) return false;
  actions_.emplace_back(StopAsking{});
  adopt(std::move(fetched->plan), fetched->to);
  tell(PlanHeld{plan_name()});
  return true;
}

void AgentCore::adopt(Plan plan, const std::vector<PlanUpdate::Addressee>& to) {
  plan_ = std::move(plan);
  plan_name_.reset();
  for (const PlanUpdate::Addressee& one : to)
    handle({one.start, {}}, SendOrder{one.rank, one.since, *plan_});
  if (plans_.is_anybody_waiting()) act(plans_.on_plan(plan_name()));
}

PlanName AgentCore::plan_name() {
  if (!plan_) return {};
  if (!plan_name_) plan_name_ = name_of(*plan_);
  return *plan_name_;
}

// ---- other agents

AgentActions AgentCore::on_asker(absl::Duration now, StreamNumber from, const Envelope& envelope) {
  now_ = time_.at(now);
  const auto* const wanted = std::get_if<PlanWanted>(&envelope.message);
  const bool is_question = std::holds_alternative<PartnerQuestion>(envelope.message);
  if ((wanted == nullptr && !is_question) || phase_ == Phase::kQuitting) {
    plans_.on_asker_gone(from);
    answers_.on_gone(from);
    actions_.emplace_back(CutAsker{from});
  } else if (is_question) {
    answer(from);
  } else {
    act(plans_.on_asked(now_, from, wanted->plan, plan_name()));
  }
  return take();
}

AgentActions AgentCore::on_asker_broken(absl::Duration now, StreamNumber stream) {
  now_ = time_.at(now);
  plans_.on_asker_gone(stream);
  answers_.on_gone(stream);
  return take();
}

AgentActions AgentCore::on_asked_agent(absl::Duration now, const Envelope& envelope) {
  now_ = time_.at(now);
  const auto* const update = std::get_if<PlanUpdate>(&envelope.message);
  const absl::StatusOr<Plan> plan =
      update == nullptr ? absl::StatusOr<Plan>(absl::InvalidArgumentError("no plan"))
                        : apply_update(nullptr, *update);
  if (!plan.ok() || !adopt_fetched(*plan)) act(plans_.give_up("it told something else"));
  return take();
}

AgentActions AgentCore::on_asked_agent_broken(absl::Duration now, const std::string& why) {
  now_ = time_.at(now);
  act(plans_.give_up(why));
  return take();
}

void AgentCore::act(PlanActions actions) {
  for (PlanAction& action : actions) {
    if (const auto* const ask = std::get_if<AskController>(&action)) {
      tell(PlanWanted{ask->plan});
    } else if (auto* const answer = std::get_if<TellPlan>(&action)) {
      actions_.emplace_back(ToAskers{std::move(answer->to), {0, update_of(nullptr, *plan_)}});
    } else if (const auto* const at = std::get_if<AskForPlan>(&action)) {
      actions_.emplace_back(*at);
    } else if (const auto* const cut = std::get_if<CutAsker>(&action)) {
      actions_.emplace_back(*cut);
    } else if (const auto* const stop = std::get_if<StopAsking>(&action)) {
      actions_.emplace_back(*stop);
    }
  }
}

}  // namespace evermoe
