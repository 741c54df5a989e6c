// Which machines would compute other bits than the worker that joined first: machines that differ
// give bits that differ, often in a few gradients only. A job goes on without such a machine where
// others can take its place, and ends where none can. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/controller/controller_interface.h"
#include "control/controller/role_placement.h"
#include "parallel/topology.h"

namespace evermoe {

struct ArithmeticDecision {
  enum class Kind { kJoin, kLeaveNodeOut, kEnd };
  Kind kind = Kind::kJoin;
  std::string difference;  // "would compute other bits than ..."; empty: there is none
};

// Threads: one at a time.
class ArithmeticCheck {
 public:
  // `topology` outlives it.
  explicit ArithmeticCheck(const Topology& topology) : topology_(topology) {}

  // What would run there, as AgentJoined's.
  void on_node(const AgentJoined& event);
  // The first one is the measure of all others. Before the first step (`newest`: the newest commit)
  // `nodes_needed` machines have to be left; later one is enough, which can play all roles.
  ArithmeticDecision decide(const MemberJoined& event, const NodeTable& nodes, Commit newest,
                            int nodes_needed);

  struct UnequalNode {
    Node node;
    std::string difference;
  };
  // Nodes that have said so before they play a role, each time that they have.
  std::vector<UnequalNode> take_unequal_nodes();

 private:
  std::string difference(const std::string& arithmetic) const;

  const Topology& topology_;
  std::optional<MemberJoined> first_joined_;
  std::map<Node, std::string> of_nodes_;  // that are not compared yet
};

}  // namespace evermoe
