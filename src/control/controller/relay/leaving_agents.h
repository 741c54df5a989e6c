// Nodes whose machines will be taken away soon, until the core hears of it. Pure.
//
// Who stops a job stops all its nodes: from the first one that says so the core is not told for
// a grace, until the wish of the job's run is known, too. Then it is told of all that have said
// so: none of them is to take the roles of another.
#pragma once

#include <map>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/relay/relay_peers.h"

namespace evermoe {

class LeavingAgents {
 public:
  explicit LeavingAgents(absl::Duration grace) : grace_(grace) {}

  void on_leaves(absl::Duration now, Node node) { due_.try_emplace(node, now + grace_); }
  void on_attached(Node node) { due_.erase(node); }  // it is another agent's business now
  // Of whom the core is to be told now. One that it does not know has to come before it can go.
  std::vector<Node> take(absl::Duration now, const RelayPeers& peers);
  absl::Duration next_due() const;

 private:
  const absl::Duration grace_;
  std::map<Node, absl::Duration> due_;
};

}  // namespace evermoe
