// Lines that break or fall silent: whose are lost with them, and who may be back.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay.h"

namespace evermoe {

std::vector<RelayAction> ControllerRelay::on_broken(absl::Duration now, StreamNumber stream,
                                                    const std::string& why) {
  now_ = time_.at(now);
  const auto peer = peers_.find(stream);
  if (peer != peers_.end() && !end_ && peer->second.kind == Kind::kAgent &&
      options_.return_max > absl::ZeroDuration() && !is_accused(peer->second.node)) {
    network_.on_line_broken(peer->second.node);
    peer->second.broke = now_;
    peer->second.why = why;
    return take();
  }
  const auto node = peers_.extract(stream);
  if (end_ || node.empty() || node.mapped().kind != Kind::kAgent) return {};
  lose_agent(node.mapped(), why);
  return take();
}

// A line alone may break; when others miss the workers of that node, too, it is the node.
bool ControllerRelay::is_accused(Node node) const {
  return std::any_of(accused_.begin(), accused_.end(), [&](const auto& accused) {
    return processes_.of(accused.first).node == node && now_ < accused.second + options_.return_max;
  });
}

void ControllerRelay::hear_accusation(Rank accused) {
  accused_[accused] = now_;
  const auto agent = agents_.find(processes_.of(accused).node);
  if (agent == agents_.end() || !peers_[agent->second].broke) return;
  const std::string why = peers_[agent->second].why;
  cut(agent->second, why);
}

void ControllerRelay::lose_who_did_not_return() {
  std::vector<std::pair<StreamNumber, std::string>> gone;
  for (const auto& [number, peer] : peers_) {
    if (peer.broke && now_ >= *peer.broke + options_.return_max)
      gone.emplace_back(number, peer.why);
  }
  for (const auto& [number, why] : gone) cut(number, why);
}

// Most of the nodes are silent at once.
bool ControllerRelay::is_cut_off() const {
  int nodes = 0, silent = 0;
  for (const auto& [number, peer] : peers_) {
    if (peer.kind != Kind::kAgent) continue;
    ++nodes;
    silent += now_ >= peer.heard + options_.silence_max / 2 ? 1 : 0;
  }
  return silent > 1 && 2 * silent > nodes;
}

bool ControllerRelay::is_lost(const Peer& peer, bool is_cut_off) const {
  const absl::Duration late = core_.allowance(peer.node, options_.silence_max);
  const absl::Duration silence = now_ - peer.heard - late;
  if (silence < options_.silence_max) return false;
  if (peer.kind != Kind::kAgent || options_.return_max == absl::ZeroDuration()) return true;
  if (is_job_going_on()) return false;
  return !is_cut_off || silence >= options_.cut_off_max;
}

void ControllerRelay::beat(absl::Duration late) {
  next_beat_ = now_ + options_.beat;
  std::vector<StreamNumber> silent;
  const bool cut_off = is_cut_off();
  for (const auto& [number, peer] : peers_) {
    if (is_lost(peer, cut_off))
      silent.push_back(number);
    else if (!peer.broke)
      send(number, Beat{late, {}});
  }
  const std::string why =
      absl::StrCat("no sign of life for ", absl::FormatDuration(options_.silence_max));
  for (const StreamNumber number : silent) cut(number, why);
}

// The same agent, with the same workers: nobody was lost. What was said on the way is.
void ControllerRelay::take_back(Stream& from, StreamNumber former) {
  from.second.is_fed = peers_[former].is_fed;
  peers_.erase(former);
  actions_.emplace_back(CutStream{former});
  actions_.emplace_back(
      LogLine{absl::StrCat("node ", from.second.node.value, " is back on a new line")});
}

void ControllerRelay::lose_what_is_not_shown(const Peer& agent) {
  for (int32_t r = 0; processes_.has(Rank(r)); ++r) {
    const RoleProcesses::Process process = processes_.of(Rank(r));
    if (process.start == 0 || process.node != agent.node || agent.starts.contains(process.start))
      continue;
    tell_pid(Rank(r), 0);
    feed(WorkerEnded{Rank(r), process.since, agent.node, "ended while its node was cut off"},
         process.heard);
  }
}

void ControllerRelay::lose_agent(const Peer& agent, const std::string& why) {
  const Node node = agent.node;
  agents_.erase(node);
  network_.on_lost(now_, node);
  for (const Rank rank : processes_.alive()) {
    if (processes_.of(rank).node == node) tell_pid(rank, 0);
  }
  tell_run(NodeLost{node, agent.pid, why});
  feed(AgentLost{node, why}, agent.heard);
}

void ControllerRelay::cut(StreamNumber stream, const std::string& why) {
  actions_.emplace_back(CutStream{stream});
  const auto node = peers_.extract(stream);
  if (!node.empty() && node.mapped().kind == Kind::kAgent) lose_agent(node.mapped(), why);
}

}  // namespace evermoe
