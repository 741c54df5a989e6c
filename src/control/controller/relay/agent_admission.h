// Which agents the core hears of: those whose nodes belong to the job, when what lives there has
// registered; spare nodes not before the others are there or have had their time, for they are not
// to begin. Pure.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "control/controller/relay/relay_peers.h"

namespace evermoe {

class AgentAdmission {
 public:
  // Nodes 0 .. nodes - 1 begin; `spares` more wait for them until then.
  AgentAdmission(int nodes, int spares, absl::Duration spares_wait_until)
      : nodes_(nodes), spares_(spares), spares_wait_until_(spares_wait_until) {}

  int nodes() const { return nodes_ + spares_; }  // in all
  bool has(Node node) const { return node.value < nodes(); }
  // Those who are ready and may come in now, and are not fed yet; by their nodes.
  std::vector<RelayPeer*> admitted(absl::Duration now, RelayPeers& peers) const;

 private:
  bool is_spare(Node node) const { return node.value >= nodes_; }

  const int nodes_;
  const int spares_;
  const absl::Duration spares_wait_until_;
};

}  // namespace evermoe
