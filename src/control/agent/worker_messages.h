// What worker processes say to the agent of their node, and what of it the controller hears. A
// worker speaks of itself alone, and the controller hears only of those that have registered with
// it. Signs of life are noted, and the agent's next one tells of them: a controller hears one
// message of a node, however many workers live there. Pure but for the worker, of which is noted
// what it said.
#pragma once

#include <optional>

#include "control/agent/agent_workers.h"
#include "control/wire/control_messages.h"

namespace evermoe {

struct HeardOfWorker {
  // It is of another version, or broken.
  bool is_nonsense = false;
  bool has_registered = false;
  std::optional<ControlMessage> told;  // to the controller, of this process
  // What is told is this, and where another worker has told it already it is a sign of life.
  std::optional<Progress> commit;
  bool is_kept = false;  // for the next controller, while there is none
};

HeardOfWorker hear_of_worker(AgentWorker& worker, bool has_controller, const MemberJoined& joined);
HeardOfWorker hear_of_worker(AgentWorker& worker, bool has_controller, const MemberSaid& said);
HeardOfWorker hear_of_worker(AgentWorker& worker, bool has_controller, const MemberAlive& alive);
HeardOfWorker hear_of_worker(AgentWorker& worker, bool has_controller, const WorkerReport& report);
// Nobody says anything else to an agent.
template <typename Other>
HeardOfWorker hear_of_worker(AgentWorker&, bool, const Other&) {
  return {.is_nonsense = true};
}

}  // namespace evermoe
