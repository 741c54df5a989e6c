// What the agent of a node does, as it decides (agent_core.h); its shell does it (agent.h).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "control/agent/partner_questions.h"
#include "control/agent/plan_exchange.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

// On a new stream, instead of the present one. The AgentHello follows, to which the shell adds
// where other agents reach this one.
struct AttachController {};
struct ToController {
  Envelope envelope;
};
struct ToWorker {
  StreamNumber to;
  Envelope envelope;
};
struct CutWorker {
  StreamNumber stream;
};
struct SpawnWorker {  // answered by on_spawned() or on_not_spawned(), at once
  int64_t start = 0;
  Rank rank;
  View since;
  FolderTerm term;  // of the run that wants it
};
struct SpawnStandby {  // answered likewise, with its number
  int64_t number = 0;
  std::vector<Rank> roles = {};  // that it warms up for; none: every role
};
// A standby plays this role from now on, and is the process of that start; answered by
// on_spawned(), at once. On its line it is told so.
struct PromoteStandby {
  int64_t number = 0;
  StreamNumber line;
  SpawnWorker role;
};
// A worker forgets its role and becomes that standby: on its line it is told so. When it says hello
// as one AdoptStandby follows.
struct RelieveWorker {
  int64_t start = 0;
  StreamNumber line;
  int64_t number = 0;
};
struct AdoptStandby {  // the process of that start is this standby from now on
  int64_t start = 0;
  int64_t number = 0;
};
struct SignalWorker {
  int64_t start = 0;  // or a standby's number
  int signal = 0;
};
struct QuitAgent {  // no worker runs any more
  bool ok = false;
  std::string reason;
};
// What passes between agents, besides AskForPlan, StopAsking, CutAsker and PartnerAction.
struct ToAskers {
  std::vector<StreamNumber> to;
  Envelope envelope;
};
using AgentAction =
    std::variant<AttachController, ToController, ToWorker, CutWorker, SpawnWorker, SpawnStandby,
                 PromoteStandby, RelieveWorker, AdoptStandby, SignalWorker, QuitAgent, AskForPlan,
                 StopAsking, CutAsker, ToAskers, AskPartner, DropQuestion>;
using AgentActions = std::vector<AgentAction>;

}  // namespace evermoe
