// Which nodes there are, where a role is started, and who keeps whose copies. Pure.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/role_restarts.h"
#include "control/controller/role_table.h"
#include "parallel/failure_domains.h"
#include "parallel/topology.h"

namespace evermoe {

// The nodes whose agents a controller has met.
class NodeTable {
 public:
  // A node of which nothing is heard for longer than `doubt_after` is in doubt: it may be lost, and
  // what is started there would be lost with it.
  explicit NodeTable(absl::Duration doubt_after) : doubt_after_(doubt_after) {}

  void join(Node node, absl::Duration now) { nodes_[node] = {true, now}; }
  void hear(Node node, absl::Duration now) { nodes_[node].heard = now; }
  void lose(Node node) { nodes_[node].is_up = false; }

  int known() const { return static_cast<int>(nodes_.size()); }  // lost ones too
  bool is_up(Node node) const;
  bool is_in_doubt(Node node, absl::Duration now) const;
  std::vector<Node> usable(absl::Duration now) const;  // up and not in doubt
  // When its agent was heard last; nullopt: never met.
  std::optional<absl::Duration> heard(Node node) const;

 private:
  struct State {
    bool is_up = false;
    absl::Duration heard;
  };
  const absl::Duration doubt_after_;
  std::map<Node, State> nodes_;
};

// Where to start a role: the node it was on, if that is up; at the start, blocks of neighbouring
// ranks on the first `nodes_at_start` nodes; else the spare or the node with the fewest workers.
// Where it keeps ending soon after its start it goes to a node that has room instead: one that
// plays fewer roles than the nodes do at the start. nullopt: not before more is known of the nodes.
std::optional<Node> node_for(Rank rank, const RoleTable& roles, const NodeTable& nodes,
                             const RoleRestarts& restarts, int nodes_at_start, absl::Duration now);

// Who keeps the copies of each rank, with the present nodes (parallel/failure_domains.h).
CopyHolders holders_for(const Topology& topology, const RoleTable& roles,
                        const ControllerOptions& options);

}  // namespace evermoe
