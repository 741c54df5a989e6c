#include "control/controller/relay/agent_admission.h"

#include <algorithm>

namespace evermoe {

std::vector<RelayPeer*> AgentAdmission::admitted(absl::Duration now, RelayPeers& peers,
                                                 bool has_begun) const {
  const auto begin = std::count_if(peers.begin(), peers.end(), [&](const auto& peer) {
    return peer.second.is_ready && !is_spare(peer.second.node);
  });
  const bool spares_too = has_begun || begin == options_.nodes || now >= options_.spares_wait_until;
  std::vector<RelayPeer*> admitted;
  for (auto& [number, peer] : peers) {
    if (peer.is_ready && !peer.is_fed && (spares_too || !is_spare(peer.node)))
      admitted.push_back(&peer);
  }
  std::ranges::sort(admitted, {}, &RelayPeer::node);
  return admitted;
}

}  // namespace evermoe
