// Whether roles can be moved, and where to: the answer to whoever wants it. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/controller/membership/membership_decision.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"
#include "parallel/failure_domains.h"
#include "parallel/topology.h"

namespace evermoe {

// What the answer depends on; the tables outlive it.
struct MoveSurroundings {
  const Topology& topology;
  const RoleTable& roles;
  const NodeTable& nodes;
  const StandbyBook& standbys;
  const CopyHolders& holders;  // with the present nodes
  const RestingRoles& resting;
  const ControllerOptions& options;
  const std::set<Node>& avoided = {};  // where no role goes, unless `to` says so
};

// Each role goes to its node of `to`; or, if that is empty, to the node with the most room that is
// none of those where the roles are now; those of one node stay together where one has room for
// them, first where a standby is warm. Roles that have a node each may change places: room is what
// is left when all have moved. InvalidInput, for whoever wants it: a role or node that does not
// exist, is not up, or has no room; a role that is named twice, is there already or rests; a job
// that keeps no copies in peers' memory; or nobody who keeps a role's copies stays.
absl::StatusOr<std::vector<RoleMove>> choose_moves(absl::Duration now,
                                                   const std::vector<Rank>& roles,
                                                   const std::vector<Node>& to,
                                                   const MoveSurroundings& around);

}  // namespace evermoe
