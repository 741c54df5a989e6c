// What operators ask, and nodes that leave: their machines will be taken away soon.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay.h"

namespace evermoe {
namespace {

constexpr int kOperatorsMax = 64;
// Who stops a job stops all its nodes: from the first one that says so until the wish of the job's
// run is known, too.
constexpr absl::Duration kLeaveGrace = absl::Milliseconds(300);

}  // namespace

void ControllerRelay::handle(Stream& from, const Envelope&, const OperatorHello&) {
  Kind& kind = from.second.kind;
  const auto operators = std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer.second.kind == Kind::kOperator;
  });
  if (kind == Kind::kUnknown && operators < kOperatorsMax) kind = Kind::kOperator;
  if (kind != Kind::kOperator) return refuse(from);
  JobStatus status = status_.status(now_, core_, processes_, topology_, nodes_ + spares_);
  status.life = options_.life;
  status.term = options_.term;
  status.is_draining = is_draining_;
  send(from.first, std::move(status));
}

void ControllerRelay::handle(Stream& from, const Envelope&, const NodeLeaves&) {
  if (from.second.kind != Kind::kAgent) return refuse(from);
  leaving_.try_emplace(from.second.node, now_ + kLeaveGrace);
}

// When the first one is due all that have said so are told of: none of them is to take the roles of
// another.
void ControllerRelay::let_leave() {
  const auto is_due = [&](const auto& one) { return now_ >= one.second; };
  if (std::none_of(leaving_.begin(), leaving_.end(), is_due)) return;
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    const auto agent = agents_.find(at->first);
    if (agent != agents_.end() && !peers_[agent->second].is_fed) {
      at->second = now_ + kLeaveGrace;  // it has to come before it can go
      ++at;
      continue;
    }
    // In a job that drains it goes with the others.
    if (!is_draining_) feed(NodeLeaving{at->first}, now_);
    at = leaving_.erase(at);
  }
}

void ControllerRelay::act(const DismissNode& dismiss) {
  const auto agent = agents_.extract(dismiss.node);
  for (const Rank rank : processes_.alive()) {
    if (processes_.of(rank).node == dismiss.node) tell_pid(rank, 0);
  }
  if (agent.empty()) return;
  const std::string why = absl::StrCat("node ", dismiss.node.value, " has left the job");
  act(JobEvent{why});
  send(agent.mapped(), EndJob{.ok = true, .reason = why, .is_drained = true, .is_dismissal = true});
  Peer& peer = peers_[agent.mapped()];
  peer.kind = Kind::kDismissed;
  peer.is_fed = peer.is_ready = false;
}

}  // namespace evermoe
