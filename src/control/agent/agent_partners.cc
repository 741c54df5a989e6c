// Partners: whether this agent reaches them, and they it.
#include "control/agent/agent_core.h"

namespace evermoe {

void AgentCore::handle(const Envelope&, const AskPartners& order) {
  act(partners_.ask(now_, order));
}

AgentActions AgentCore::on_partner(absl::Duration now, int64_t number, const Envelope& envelope) {
  now_ = time_.at(now);
  if (const auto* const answer = std::get_if<PartnerAnswer>(&envelope.message))
    act(partners_.on_answer(number, *answer));
  return take();
}

AgentActions AgentCore::on_partner_broken(absl::Duration now, int64_t number,
                                          const std::string& why) {
  now_ = time_.at(now);
  act(partners_.on_broken(now_, number, why));
  return take();
}

void AgentCore::act(PartnerActions actions) {
  for (PartnerAction& action : actions) {
    if (auto* const report = std::get_if<PartnersAsked>(&action)) {
      tell(std::move(*report));
    } else if (auto* const ask = std::get_if<AskPartner>(&action)) {
      actions_.emplace_back(std::move(*ask));
    } else {
      actions_.emplace_back(std::get<DropQuestion>(action));
    }
  }
}

// ---- those who ask

void AgentCore::answer(StreamNumber asker) {
  if (auto answer = answers_.on_question(now_, asker, options_.node))
    actions_.emplace_back(ToAskers{{asker}, {0, *std::move(answer)}});
  else
    actions_.emplace_back(CutAsker{asker});
}

void AgentCore::cut_late_askers() {
  for (const StreamNumber late : answers_.on_time(now_)) actions_.emplace_back(CutAsker{late});
}

}  // namespace evermoe
