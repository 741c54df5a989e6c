// Who tells a new plan to whom: the controller to the first few agents, each of these to as many
// others, and so on. So what a controller sends at the beginning of a job does not grow with the
// number of its machines, and no agent sends more than a few plans either. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace evermoe {

// Whether an address (AgentHello::lines) is only good inside its machine: unix:, 127.0.0.1, ::1.
bool is_inside_machine(const std::string& address);

struct PlanServer {
  std::optional<size_t> agent;  // by its place in the list; nullopt: the controller itself
  int depth = 0;                // agents between it and the controller
};

// For agents that others reach at these addresses (AgentHello::lines), in an order of which
// everybody's server comes before him. Nobody serves more than `branches` agents; the controller
// serves those besides who have no address (""), and who have one that is only good inside their
// machine, unless all have.
std::vector<PlanServer> plan_tree(const std::vector<std::string>& addresses, size_t branches);

}  // namespace evermoe
