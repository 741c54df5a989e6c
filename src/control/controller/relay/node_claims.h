// Agents that call for a node which has an agent already. Its line may be dead without a word, as
// where a machine was switched off and on; or two processes were started for one node. The one that
// is there stays while it gives signs of life, and the other one is refused; exactly one of them
// acts. Pure: who came when and who was heard in, whom to admit or to refuse out.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/relay/relay_peers.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

struct NodeClaim {
  StreamNumber stream;
  AgentHello hello;
};

class NodeClaims {
 public:
  struct Limits {
    // A sign of life that is so much later than a claim was given after it.
    absl::Duration proof;
    // An agent that is silent for so long after a claim is taken for gone.
    absl::Duration patience;
  };
  explicit NodeClaims(Limits limits) : limits_(limits) {}

  void on_claim(absl::Duration now, NodeClaim claim);
  // Its stream is broken, or somebody has decided on it.
  void forget(StreamNumber stream) { claims_.erase(stream); }
  // The agent of the node gave a sign of life: whom to refuse. They are forgotten.
  std::vector<StreamNumber> on_sign(absl::Duration now, Node node);
  // Whom to admit, one for each node: those whose node has no agent any more, or one whose line
  // broke, or who has been silent for too long. They are forgotten; others who call for the same
  // node wait for a sign of life of the one that is admitted.
  std::vector<NodeClaim> take_due(absl::Duration now, const RelayPeers& peers);
  absl::Duration next_due() const;

 private:
  struct Claim {
    AgentHello hello;
    absl::Duration came;
  };

  bool is_due(absl::Duration now, const Claim& claim, const RelayPeers& peers) const;

  const Limits limits_;
  std::map<StreamNumber, Claim> claims_;  // the oldest first: streams are numbered
};

}  // namespace evermoe
