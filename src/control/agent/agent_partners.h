// Whether an agent reaches its partners, and they it: both sides of partner_questions.h, as actions
// of the agent. Pure: events and time in, actions out.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "control/agent/agent_actions.h"
#include "control/agent/partner_questions.h"

namespace evermoe {

class AgentPartners {
 public:
  explicit AgentPartners(Node own) : own_(own) {}

  // ---- whom it asks

  AgentActions ask(absl::Duration now, const AskPartners& order);
  AgentActions on_answer(int64_t number, const Envelope& envelope);
  AgentActions on_broken(absl::Duration now, int64_t number, const std::string& why);
  AgentActions forget();

  // ---- who asks it

  AgentActions on_question(absl::Duration now, StreamNumber asker);
  void on_asker_gone(StreamNumber asker) { answers_.on_gone(asker); }

  AgentActions on_time(absl::Duration now);
  absl::Duration next_due() const { return std::min(questions_.next_due(), answers_.next_due()); }

 private:
  const Node own_;
  PartnerQuestions questions_;
  PartnerAnswers answers_;
};

}  // namespace evermoe
