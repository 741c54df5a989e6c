// Roles that share a node because others were lost, though another one has room by now. Pure.
#pragma once

#include <set>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/membership/membership_decision.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_restarts.h"
#include "control/controller/role_table.h"

namespace evermoe {

// What the decision depends on; all of it outlives it.
struct CrowdedJob {
  const RoleTable& roles;
  const NodeTable& nodes;
  const RoleRestarts& restarts;
  const RestingRoles& resting;  // these stay
  const std::set<Node>& slow;   // no role goes there
  int nodes_at_start = 1;
};
struct Relief {
  std::vector<RoleMove> moves;  // by rank; none: no node is crowded, or none has room
  int most = 0;                 // roles on one node before
};
// A node that plays more roles than nodes do at the start gives what it has too many of to usable
// nodes that play fewer: first roles that began on one of these, then others that did not begin
// where they are; each to where it began, or else to the node that plays the fewest. None goes
// where a role keeps ending, nor where something was computed wrong.
Relief relieve_crowded_nodes(absl::Duration now, const CrowdedJob& job);

}  // namespace evermoe
