#include "control/controller/relay/leaving_agents.h"

#include <algorithm>

namespace evermoe {

std::vector<Node> LeavingAgents::take(absl::Duration now, const RelayPeers& peers) {
  if (now < next_due()) return {};
  std::vector<Node> leaving;
  for (auto at = due_.begin(); at != due_.end();) {
    const RelayPeers::Stream* const agent = peers.agent(at->first);
    if (agent != nullptr && !agent->second.is_fed) {
      at->second = now + grace_;
      ++at;
      continue;
    }
    leaving.push_back(at->first);
    at = due_.erase(at);
  }
  return leaving;
}

absl::Duration LeavingAgents::next_due() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [node, due] : due_) next = std::min(next, due);
  return next;
}

}  // namespace evermoe
