// Plans: once to every node, which hands it on to its workers. Those that have had the plan before
// get what differs; the others, as all at the beginning of a job, the whole one: from each other,
// but for the first few (plan_tree.h). Pure.
//
// A controller that takes over asks an agent for the newest plan of a former one, so that it has to
// send changes only.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/relay/relay_outbox.h"
#include "control/controller/relay/relay_peers.h"
#include "control/controller/relay/role_processes.h"

namespace evermoe {

struct PlanPace {  // RelayOptions says what they are
  size_t branches = 4;
  absl::Duration patience, patience_more;
};

struct PlanAnswer {
  bool is_nonsense = false;
  std::optional<PlanUpdate> whole;
  std::string log;
};

class PlanSender {
 public:
  explicit PlanSender(PlanPace pace) : pace_(pace) {}

  // The next plan, to all who play a role and whose agent is there. Notes in the table who has it.
  std::vector<SendEnvelope> send(const Plan& plan, const RoleProcesses& processes,
                                 RelayPeers& peers);
  // An agent has that plan. True: it is a former controller's, newer than any known so far, and the
  // agent is to be asked for it.
  bool wants(PlanName held);

  // It could not get the plan from the agent that it was told to ask. Of an older one it will hear
  // no more: the newer one is on its way.
  PlanAnswer hear(const RelayPeer& agent, const PlanWanted& wanted) const;
  // It has got it.
  PlanAnswer hear(RelayPeer& agent, const PlanHeld& held) const;
  // The plan of a former controller.
  PlanAnswer hear(const RelayPeer& agent, const PlanUpdate& update);

 private:
  using Readers = std::vector<PlanUpdate::Addressee>;
  using Whole = std::vector<std::pair<RelayPeers::Stream*, Readers>>;
  std::vector<SendEnvelope> send_whole(Whole to) const;

  const PlanPace pace_;
  std::optional<Plan> plan_;  // the newest one; a former controller's an agent is asked for
  PlanName name_;
};

// What PlanSender hears.
template <typename Message>
concept AboutPlan = std::same_as<Message, PlanWanted> || std::same_as<Message, PlanHeld> ||
    std::same_as<Message, PlanUpdate>;

}  // namespace evermoe
