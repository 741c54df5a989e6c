#include "control/agent/agent_partners.h"

#include <utility>

namespace evermoe {
namespace {

AgentActions actions_of_partners(PartnerActions actions) {
  AgentActions all;
  for (PartnerAction& action : actions) {
    if (auto* const report = std::get_if<PartnersAsked>(&action)) {
      all.emplace_back(ToController{{0, std::move(*report)}});
    } else if (auto* const ask = std::get_if<AskPartner>(&action)) {
      all.emplace_back(std::move(*ask));
    } else {
      all.emplace_back(std::get<DropQuestion>(action));
    }
  }
  return all;
}

}  // namespace

AgentActions AgentPartners::ask(absl::Duration now, const AskPartners& order) {
  return actions_of_partners(questions_.ask(now, order));
}

AgentActions AgentPartners::on_answer(int64_t number, const Envelope& envelope) {
  const auto* const answer = std::get_if<PartnerAnswer>(&envelope.message);
  if (answer == nullptr) return {};
  return actions_of_partners(questions_.on_answer(number, *answer));
}

AgentActions AgentPartners::on_broken(absl::Duration now, int64_t number, const std::string& why) {
  return actions_of_partners(questions_.on_broken(now, number, why));
}

AgentActions AgentPartners::forget() { return actions_of_partners(questions_.forget()); }

AgentActions AgentPartners::on_question(absl::Duration now, StreamNumber asker) {
  std::optional<PartnerAnswer> answer = answers_.on_question(now, asker, own_);
  if (!answer) return {CutAsker{asker}};
  return {ToAskers{{asker}, {0, *std::move(answer)}}};
}

AgentActions AgentPartners::on_time(absl::Duration now) {
  AgentActions actions = actions_of_partners(questions_.on_time(now));
  for (const StreamNumber late : answers_.on_time(now)) actions.emplace_back(CutAsker{late});
  return actions;
}

}  // namespace evermoe
