#include "control/controller/relay/agent_losses.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {

bool AgentLosses::on_newest(Commit newest, absl::Duration now) {
  if (newest == newest_) return false;
  newest_ = newest;
  moved_ = now;
  return true;
}

bool AgentLosses::is_accused(absl::Duration now, Node node, const RoleProcesses& processes) const {
  return std::any_of(accused_.begin(), accused_.end(), [&](const auto& accused) {
    return processes.of(accused.first).node == node && now < accused.second + limits_.return_max;
  });
}

// The job goes on without nodes that play no role.
absl::Duration AgentLosses::awaited_until(const RelayPeer& peer,
                                          const RoleProcesses& processes) const {
  const absl::Duration until = *peer.broke + limits_.return_max;
  const std::vector<Rank> alive = processes.alive();
  const bool plays = std::any_of(alive.begin(), alive.end(),
                                 [&](Rank rank) { return processes.of(rank).node == peer.node; });
  return plays ? std::max(until, goes_on_until()) : until;
}

std::vector<LostPeer> AgentLosses::not_back(absl::Duration now, const RelayPeers& peers,
                                            const RoleProcesses& processes) const {
  std::vector<LostPeer> gone;
  for (const auto& [number, peer] : peers) {
    if (peer.broke && now >= awaited_until(peer, processes)) gone.push_back({number, peer.why});
  }
  return gone;
}

absl::Duration AgentLosses::next_due(const RelayPeers& peers,
                                     const RoleProcesses& processes) const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [number, peer] : peers) {
    if (peer.broke) next = std::min(next, awaited_until(peer, processes));
  }
  return next;
}

std::vector<LostPeer> AgentLosses::silent(
    absl::Duration now, const RelayPeers& peers,
    const std::function<absl::Duration(Node)>& allowance) const {
  std::vector<LostPeer> silent;
  const bool cut_off = is_cut_off(now, peers);
  for (const auto& [number, peer] : peers) {
    if (!is_lost(now, peer, now - peer.heard - allowance(peer.node), cut_off)) continue;
    silent.push_back(
        {number, absl::StrCat("no sign of life for ", absl::FormatDuration(limits_.silence_max))});
  }
  return silent;
}

// Most of the nodes are silent at once.
bool AgentLosses::is_cut_off(absl::Duration now, const RelayPeers& peers) const {
  int nodes = 0, silent = 0;
  for (const auto& [number, peer] : peers) {
    if (!peer.is_agent()) continue;
    ++nodes;
    silent += now >= peer.heard + limits_.silence_max / 2 ? 1 : 0;
  }
  return silent > 1 && 2 * silent > nodes;
}

bool AgentLosses::is_lost(absl::Duration now, const RelayPeer& peer, absl::Duration silence,
                          bool is_cut_off) const {
  if (silence < limits_.silence_max) return false;
  if (!peer.is_agent() || !may_lines_break()) return true;
  if (now < goes_on_until()) return false;
  return !is_cut_off || silence >= limits_.cut_off_max;
}

}  // namespace evermoe
