// Whether machines reach each other: rounds of questions between agents (network_rounds.h), and
// what the core hears of it: complaints, beside those that each machine has of itself.
#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay.h"
#include "control/controller/relay/plan_tree.h"

namespace evermoe {

void ControllerRelay::act(const CheckNetwork&) { network_.want(now_); }

void ControllerRelay::look_after_network() {
  if (network_.is_due(now_)) begin_network_round();
  if (network_.is_over(now_)) end_network_round();
}

// Between agents of one machine there is no network.
void ControllerRelay::begin_network_round() {
  std::vector<AskPartners::Partner> members;
  for (const auto& [number, peer] : peers_) {
    if (peer.kind == Kind::kAgent && peer.is_ready && !peer.broke && !peer.lines.empty() &&
        !is_inside_machine(peer.lines))
      members.push_back({peer.node, peer.lines});
  }
  for (NetworkRounds::Order& order : network_.begin(now_, members))
    send_to_node(order.to, std::move(order.order), 0);
}

void ControllerRelay::end_network_round() {
  for (std::string& line : network_.take(now_)) act(JobEvent{std::move(line)});
  std::vector<Node> fed;
  for (const auto& [number, peer] : peers_) {
    if (peer.is_fed) fed.push_back(peer.node);
  }
  for (const Node node : fed) feed_complaints(node);
  feed(NetworkChecked{}, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const PartnersAsked& report) {
  if (from.second.kind != Kind::kAgent) return refuse(from);
  network_.on_report(from.second.node, report);
}

std::vector<std::string> ControllerRelay::complaints_of(const Peer& agent) const {
  std::vector<std::string> complaints = agent.complaints;
  if (std::string network = network_.complaint(agent.node); !network.empty())
    complaints.push_back(std::move(network));
  return complaints;
}

// If they are others than before.
void ControllerRelay::feed_complaints(Node node) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end()) return;
  std::vector<std::string> complaints = complaints_of(peers_[agent->second]);
  if (core_.nodes().complaints(node) != complaints)
    feed(NodeChecked{node, std::move(complaints)}, now_);
}

}  // namespace evermoe
