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
  struct Options {
    int nodes = 1;            // that begin: nodes 0 .. nodes - 1
    int spares = 0;           // more, that wait for them until then
    bool takes_more = false;  // so may any others, of an elastic job
    absl::Duration spares_wait_until;
  };
  explicit AgentAdmission(const Options& options) : options_(options) {}

  // That may come to an elastic job, besides those that it asks for.
  static constexpr int kMoreNodesMax = 4096;

  int nodes() const { return options_.nodes + options_.spares; }  // that it asks for
  bool has(Node node) const {
    return node.value < nodes() + (options_.takes_more ? kMoreNodesMax : 0);
  }
  // Those who are ready and may come in now, and are not fed yet; by their nodes. `has_begun`: the
  // job waits for nobody any more.
  std::vector<RelayPeer*> admitted(absl::Duration now, RelayPeers& peers, bool has_begun) const;

 private:
  bool is_spare(Node node) const { return node.value >= options_.nodes; }

  const Options options_;
};

}  // namespace evermoe
