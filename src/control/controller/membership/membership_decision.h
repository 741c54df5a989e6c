// Which roles of an elastic job train and which rest, and which of them move to nodes with room
// (parallel/membership.h). Pure.
//
// A node does its share: as many roles train there as a node had at the start. Where a node plays
// more, because others are gone, the rest of its roles rest; where a node plays fewer, roles that
// rest elsewhere move to it. Which ones keeps the stages as even as it can be: the pace of a
// pipeline is that of its narrowest stage. Where a stage may train with some numbers of lanes only,
// more of it rest.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"
#include "parallel/membership.h"

namespace evermoe {

// Who should rest where role r is on node_of[r] and `share` roles of a node train. Of two that
// would do, the one that rests already in `now`. More train on a node only where all of them are
// the first of their stages, which never rest.
RestingRoles decide_resting(const Topology& topology, std::span<const Node> node_of,
                            const RestingRoles& now, int share, std::span<const int> widths = {});

struct RoleMove {
  Rank rank;
  Node node;  // to which it goes
  friend bool operator==(const RoleMove&, const RoleMove&) = default;
};

// Roles that rest on nodes with more than their share, and may train on usable nodes with room:
// those of the narrowest stages first.
std::vector<RoleMove> decide_wakes(const Topology& topology, std::span<const Node> node_of,
                                   const RestingRoles& now, std::span<const Node> usable,
                                   int share);

// Of these nodes, which all play as many roles, the one where a role that nobody has room for costs
// the least: one of its roles, or the newcomer, can rest there, and of those the one where that may
// be a role of the widest stage. nullopt: there are none.
std::optional<Node> node_to_share(const Topology& topology, Rank rank,
                                  std::span<const Node> node_of, const RestingRoles& now,
                                  std::span<const Node> candidates);

}  // namespace evermoe
