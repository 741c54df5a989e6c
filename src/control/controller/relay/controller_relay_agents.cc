// What a controller hears from agents: of themselves, of workers and of standbys.

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay.h"

namespace evermoe {

void ControllerRelay::handle(Stream& from, const Envelope&, const AgentHello& hello) {
  if (from.second.kind != PeerKind::kUnknown || !admission_.has(hello.node)) return refuse(from);
  const Stream* const former = peers_.agent(hello.node);
  const bool is_another = former != nullptr && former->second.incarnation != hello.incarnation;
  if (is_another && !former->second.broke) return claims_.on_claim(now_, {from.first, hello});
  admit(from, hello);
}

void ControllerRelay::admit(Stream& from, const AgentHello& hello) {
  RelayPeer& peer = from.second;
  peer.kind = PeerKind::kAgent;
  peer.node = hello.node;
  peer.pid = hello.pid;
  peer.incarnation = hello.incarnation;
  peer.host = hello.host;
  peer.lines = hello.lines;
  // An agent that has lost its stream may be back before this end of it breaks.
  if (const Stream* const former = peers_.agent(hello.node)) {
    const StreamNumber line = former->first;
    if (losses_.may_lines_break() && former->second.incarnation == hello.incarnation) {
      // It has the same workers: nobody was lost. What was said on the way is.
      peers_.take_back(peer, line);
      out_.cut(line);
      out_.log(absl::StrCat("node ", hello.node.value, " is back on a new line"));
    } else {
      cut(line, "it attaches anew");
    }
  }
  peers_.set_agent(from);
  leaving_.on_attached(hello.node);
  status_.on_agent(hello.node, hello.host);
  status_.on_sign(hello.node, now_);
  out_.send(from.first, Welcome{options_.life, options_.term});
}

void ControllerRelay::admit_claims() {
  for (const NodeClaim& claim : claims_.take_due(now_, peers_))
    admit(peers_.meet(claim.stream), claim.hello);
}

void ControllerRelay::refuse_claims(const RelayPeer& agent) {
  for (const StreamNumber stream : claims_.on_sign(now_, agent.node)) {
    peers_.meet(stream).second.kind = PeerKind::kDismissed;
    out_.send(stream, EndJob{.bad_input = true,
                             .reason = absl::StrCat("node ", agent.node.value,
                                                    " of this job runs already: process ",
                                                    agent.pid, " on ", agent.host)});
  }
}

void ControllerRelay::handle(Stream& from, const Envelope&, const AgentReady& ready) {
  if (!from.second.is_agent()) return refuse(from);
  if (from.second.is_fed && !from.second.is_ready) {
    const RelayPeer back = from.second;
    from.second.is_ready = true;
    take_stock(back);
  }
  if (!from.second.is_ready) network_.on_joined(now_);
  from.second.is_ready = true;
  from.second.arithmetic = ready.arithmetic;
  from.second.complaints = ready.complaints;
  from.second.plan = ready.plan;
  take_standbys(from, ready.standbys);
  if (plans_.wants(ready.plan)) out_.send(from.first, PlanWanted{});
  // A former controller may have been asked for it.
  if (ready.is_draining && !is_draining_) act(DrainJob{});
  if (is_draining_ && !ready.is_draining) out_.send(from.first, Drain{});
  if (from.second.is_fed) feed_complaints(from.second.node);
  feed_ready_agents();
}

void ControllerRelay::handle(Stream& from, const Envelope&, const StandbysKept& kept) {
  if (!from.second.is_agent()) return refuse(from);
  take_standbys(from, kept);
}

void ControllerRelay::take_standbys(Stream& from, const StandbysKept& kept) {
  from.second.standbys = kept;
  from.second.standbys.node = from.second.node;
  if (from.second.is_fed) feed(from.second.standbys, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const JoinerReady& ready) {
  const bool is_role = ready.rank >= Rank(0) && ready.rank.value < topology_.world_size();
  if (!from.second.is_agent() || !is_role) return refuse(from);
  if (from.second.is_fed) feed(JoinerReady{from.second.node, ready.rank, ready.joiner}, now_);
}

// Workers first: how long one of them was silent is measured by when its agent was heard.
void ControllerRelay::handle(Stream& from, const Envelope&, const Beat& beat) {
  if (!hear_of_workers(from, beat)) return refuse(from);
  if (from.second.is_fed) feed(AgentAlive{from.second.node, beat.late, beat.starved}, now_);
}

// False: it makes no sense.
bool ControllerRelay::hear_of_workers(Stream& from, const Beat& beat) {
  if (beat.alive.empty()) return true;
  if (!from.second.is_agent() || std::ssize(beat.alive) > topology_.world_size()) return false;
  // Each of them has lived at some time since the beat before.
  const absl::Duration lived = now_ - options_.beat - beat.late;
  for (const auto& [start, sign] : beat.alive) {
    HeardOfRole heard = hear_of_role(lived, from.second.node, start, sign, processes_);
    if (heard.is_nonsense) return false;
    follow(from, start, sign.rank, std::move(heard));
  }
  return true;
}

void ControllerRelay::handle(Stream& from, const Envelope&, const NodeLeaves&) {
  if (!from.second.is_agent()) return refuse(from);
  leaving_.on_leaves(now_, from.second.node);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const PartnersAsked& report) {
  if (!from.second.is_agent()) return refuse(from);
  network_.on_report(from.second.node, report);
}

void ControllerRelay::follow(Stream& from, int64_t start, Rank rank, HeardOfRole heard) {
  if (heard.is_nonsense) return refuse(from);
  if (heard.replaced) return out_.send(from.first, *std::move(heard.replaced), start);
  if (heard.is_shown) from.second.starts.insert(start);
  if (heard.pid) tell_pid(rank, *heard.pid);
  if (heard.accused) {
    losses_.on_accused(*heard.accused, now_);
    const Stream* const accused = peers_.agent(processes_.of(*heard.accused).node);
    if (accused != nullptr && accused->second.broke)
      cut(accused->first, std::string(accused->second.why));
  }
  if (heard.event) feed(*heard.event, now_);
  if (!heard.for_run) return;
  if (const auto* const report = std::get_if<WorkerReport>(&*heard.for_run))
    status_.on_report(*report);
  out_.tell_run(*std::move(heard.for_run));
}

void ControllerRelay::follow(Stream& from, PlanAnswer answer) {
  if (answer.is_nonsense) return refuse(from);
  if (!answer.log.empty()) out_.log(std::move(answer.log));
  if (answer.whole) out_.send(from.first, *std::move(answer.whole));
}

}  // namespace evermoe
