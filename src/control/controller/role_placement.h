// Which nodes there are, where a role is started, and who keeps whose copies. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/role_restarts.h"
#include "control/controller/role_table.h"
#include "control/controller/standbys/standby_book.h"
#include "parallel/failure_domains.h"
#include "parallel/topology.h"

namespace evermoe {

// The nodes whose agents a controller has met.
class NodeTable {
 public:
  // A node of which nothing is heard for longer than `doubt_after` is in doubt: it may be lost, and
  // what is started there would be lost with it.
  explicit NodeTable(absl::Duration doubt_after) : doubt_after_(doubt_after) {}

  void join(Node node, absl::Duration now);
  void hear(Node node, absl::Duration now) { nodes_[node].heard = now; }
  void lose(Node node);  // nothing, if it was never met
  // It is not fit to play a role, until it is lost and joins again.
  void leave_out(Node node) { nodes_[node].is_left_out = true; }
  // Why its machine is not fit to play a role; none: it is. It plays what it plays.
  void check(Node node, std::vector<std::string> complaints) {
    nodes_[node].complaints = std::move(complaints);
  }
  // What was computed there may be wrong: it plays what it plays, and something new only where no
  // other node has room. Also when it joins again, until it is trusted.
  void doubt(Node node, std::string why) { doubted_[node] = std::move(why); }
  void trust(Node node) { doubted_.erase(node); }
  // It plays what it plays until that is elsewhere, and nothing new while another node is up.
  void leave(Node node);

  int known() const { return static_cast<int>(nodes_.size()); }  // lost ones too
  bool is_up(Node node) const;                                   // and fit, and does not leave
  bool is_there(Node node) const;                                // however fit it is
  bool is_leaving(Node node) const;
  bool is_doubted(Node node) const { return doubted_.contains(node); }
  const std::map<Node, std::string>& doubted() const { return doubted_; }  // with the reason
  int up() const;
  int up_besides(Node node) const;
  // Of one that is there.
  std::vector<std::string> complaints(Node node) const;
  std::vector<Node> unfit() const;
  std::vector<Node> leaving() const;
  // It has left: as one that was never met.
  void forget(Node node);
  bool is_in_doubt(Node node, absl::Duration now) const;
  std::vector<Node> usable(absl::Duration now) const;  // up and not in doubt
  // It leaves, but is fit, and no node is up.
  bool is_last_resort(Node node) const;
  std::vector<Node> last_resort(absl::Duration now) const;  // such ones that are not in doubt
  // When its agent was heard last; nullopt: never met.
  std::optional<absl::Duration> heard(Node node) const;

 private:
  bool is_fit(Node node) const;  // and there

  struct State {
    bool is_up = false;
    bool is_left_out = false;
    std::vector<std::string> complaints;
    absl::Duration heard;
  };
  const absl::Duration doubt_after_;
  std::map<Node, State> nodes_;
  std::set<Node> leaving_;
  std::map<Node, std::string> doubted_;
};

// Where to start a role: the node it was on, if that is up; at the start, blocks of neighbouring
// ranks on the first `nodes_at_start` nodes; else where others of its block have gone, so that the
// layout of the copies stays as it is; else the spare or the node with the fewest workers. Of other
// nodes first to those where a standby is warm and there is room; if it `may_leave`, it also leaves
// a node that is up, and has no standby, for one of these.
// Where it keeps ending soon after its start it goes to a node that has room instead, one that
// plays fewer roles than the nodes do at the start, and first of all to one where no role does so;
// if none has room, and it keeps ending nowhere else, to the one of the latter that plays the
// fewest.
// Where all nodes leave, on one of these: only a job that trains can be drained.
// nullopt: not before more is known of the nodes.
struct PlacementState {  // which the tables outlive
  const RoleTable& roles;
  const NodeTable& nodes;
  const RoleRestarts& restarts;
  const StandbyBook& standbys;
  int nodes_at_start = 1;
  bool may_leave = false;
};
std::optional<Node> node_for(absl::Duration now, Rank rank, const PlacementState& state);

// The most roles that a node plays at the start.
int roles_at_start(int roles, int nodes_at_start);
// How many roles more the usable nodes can play so that none plays more than that.
int room(const RoleTable& roles, const NodeTable& nodes, int nodes_at_start, absl::Duration now);

// Who keeps the copies of each rank, with the present nodes (parallel/failure_domains.h).
CopyHolders holders_for(const Topology& topology, const RoleTable& roles,
                        const ControllerOptions& options);

}  // namespace evermoe
