#include "control/controller/relay/relay_peers.h"

#include <algorithm>

#include "control/controller/plans/plan_tree.h"

namespace evermoe {

RelayPeer* RelayPeers::find(StreamNumber stream) {
  const auto peer = peers_.find(stream);
  return peer == peers_.end() ? nullptr : &peer->second;
}

RelayPeers::Stream* RelayPeers::agent(Node node) {
  const auto stream = agents_.find(node);
  return stream == agents_.end() ? nullptr : &*peers_.find(stream->second);
}

const RelayPeers::Stream* RelayPeers::agent(Node node) const {
  const auto stream = agents_.find(node);
  return stream == agents_.end() ? nullptr : &*peers_.find(stream->second);
}

int RelayPeers::count(PeerKind kind) const {
  return static_cast<int>(std::count_if(
      peers_.begin(), peers_.end(), [&](const auto& peer) { return peer.second.kind == kind; }));
}

std::vector<AskPartners::Partner> RelayPeers::partners() const {
  std::vector<AskPartners::Partner> partners;
  for (const auto& [number, peer] : peers_) {
    if (peer.is_agent() && peer.is_ready && !peer.broke && !peer.lines.empty() &&
        !is_inside_machine(peer.lines))
      partners.push_back({peer.node, peer.lines});
  }
  return partners;
}

std::vector<Node> RelayPeers::fed() const {
  std::vector<Node> nodes;
  for (const auto& [number, peer] : peers_) {
    if (peer.is_fed) nodes.push_back(peer.node);
  }
  return nodes;
}

void RelayPeers::take_back(RelayPeer& returned, StreamNumber former) {
  if (const std::optional<RelayPeer> before = forget(former)) returned.is_fed = before->is_fed;
}

void RelayPeers::set_run(Stream& stream) {
  stream.second.kind = PeerKind::kRun;
  runs_.insert(stream.first);
}

std::optional<RelayPeer> RelayPeers::forget(StreamNumber stream) {
  runs_.erase(stream);
  auto peer = peers_.extract(stream);
  if (peer.empty()) return std::nullopt;
  const auto agent = agents_.find(peer.mapped().node);
  if (agent != agents_.end() && agent->second == stream) agents_.erase(agent);
  return std::move(peer.mapped());
}

void RelayPeers::forget_broken() {
  std::vector<StreamNumber> broken;
  for (const auto& [number, peer] : peers_) {
    if (peer.broke) broken.push_back(number);
  }
  for (const StreamNumber number : broken) forget(number);
}

RelayPeers::Stream* RelayPeers::dismiss(Node node) {
  Stream* const stream = agent(node);
  if (stream == nullptr) return nullptr;
  agents_.erase(node);
  stream->second.kind = PeerKind::kDismissed;
  stream->second.is_fed = stream->second.is_ready = false;
  return stream;
}

}  // namespace evermoe
