#include "control/controller/relay/node_claims.h"

#include <algorithm>
#include <utility>

namespace evermoe {

void NodeClaims::on_claim(absl::Duration now, NodeClaim claim) {
  claims_[claim.stream] = {std::move(claim.hello), now};
}

std::vector<StreamNumber> NodeClaims::on_sign(absl::Duration now, Node node) {
  std::vector<StreamNumber> refused;
  for (const auto& [stream, claim] : claims_) {
    if (claim.hello.node == node && now >= claim.came + limits_.proof) refused.push_back(stream);
  }
  for (const StreamNumber stream : refused) claims_.erase(stream);
  return refused;
}

bool NodeClaims::is_due(absl::Duration now, const Claim& claim, const RelayPeers& peers) const {
  const RelayPeers::Stream* const agent = peers.agent(claim.hello.node);
  return agent == nullptr || agent->second.broke || now >= claim.came + limits_.patience;
}

std::vector<NodeClaim> NodeClaims::take_due(absl::Duration now, const RelayPeers& peers) {
  std::map<Node, NodeClaim> due;
  for (auto& [stream, claim] : claims_) {
    const Node node = claim.hello.node;
    if (due.contains(node)) {
      claim.came = now;
    } else if (is_due(now, claim, peers)) {
      due[node] = {stream, claim.hello};
    }
  }
  std::vector<NodeClaim> taken;
  for (auto& [node, claim] : due) {
    claims_.erase(claim.stream);
    taken.push_back(std::move(claim));
  }
  return taken;
}

absl::Duration NodeClaims::next_due() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [stream, claim] : claims_) next = std::min(next, claim.came + limits_.patience);
  return next;
}

}  // namespace evermoe
