#include "control/controller/relay/controller_relay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

// Why a process that is not the newest of its role has to end.
constexpr char kReplaced[] = "another process plays its role";

// So that all views of a controller are newer than those of the ones before it. One that opens more
// than these has been met by those whom they concern.
constexpr int64_t kViewsOfOne = 1000;

ControllerOptions with_own_numbers(ControllerOptions core, int64_t life) {
  core.views_after = View(static_cast<uint32_t>(life * kViewsOfOne));
  core.incidents_after = life * kIncidentsOfController;
  return core;
}

}  // namespace

ControllerRelay::ControllerRelay(Topology topology, const ControllerOptions& core,
                                 RelayOptions options, absl::Duration now)
    : options_(options),
      topology_(topology),
      nodes_(core.nodes),
      spares_(core.spares),
      spares_wait_until_(now + std::max(core.adoption, core.spares_wait)),
      core_(topology, with_own_numbers(core, options.life), now),
      time_(now, options.own_standstill),
      now_(now),
      next_beat_(now),
      processes_(topology.world_size(), options.life),
      network_(options.network, core.network_max, core.takes_over, now),
      status_(now) {}

std::vector<RelayAction> ControllerRelay::on_envelope(absl::Duration now, StreamNumber from,
                                                      const Envelope& envelope) {
  now_ = time_.at(now);
  if (end_) {
    say_farewell(from, envelope.message);
    return take();
  }
  Stream& stream = *peers_.try_emplace(from).first;
  stream.second.heard = now_;
  if (stream.second.kind == Kind::kDismissed) return take();
  if (stream.second.kind == Kind::kAgent) status_.on_sign(stream.second.node, now_);
  std::visit([&](const auto& message) { handle(stream, envelope, message); }, envelope.message);
  return take();
}

std::vector<RelayAction> ControllerRelay::on_time(absl::Duration now) {
  now_ = time_.at(now);
  if (end_) return {};
  lose_who_did_not_return();
  let_leave();
  const absl::Duration late = std::max(absl::ZeroDuration(), now_ - next_beat_);
  if (now_ >= next_beat_) beat(late);
  feed_ready_agents();
  feed(TimePassed{late}, now_);
  if (!end_) look_after_network();
  return take();
}

absl::Duration ControllerRelay::next_deadline() const {
  absl::Duration next = std::min({core_.next_deadline(), next_beat_, network_.next_due()});
  for (const auto& [number, peer] : peers_) {
    if (peer.broke) next = std::min(next, *peer.broke + options_.return_max);
  }
  for (const auto& [node, due] : leaving_) next = std::min(next, due);
  return next + time_.lost();
}

// ---- agents and run

void ControllerRelay::handle(Stream& from, const Envelope&, const AgentHello& hello) {
  if (from.second.kind != Kind::kUnknown || hello.node.value >= nodes_ + spares_)
    return refuse(from);
  from.second.kind = Kind::kAgent;
  from.second.node = hello.node;
  from.second.pid = hello.pid;
  from.second.lines = hello.lines;
  // An agent that has lost its stream may be back before this end of it breaks.
  if (const auto former = agents_.find(hello.node); former != agents_.end()) {
    if (options_.return_max > absl::ZeroDuration() && peers_[former->second].pid == hello.pid)
      take_back(from, former->second);
    else
      cut(former->second, "it attaches anew");
  }
  agents_[hello.node] = from.first;
  leaving_.erase(hello.node);
  status_.on_agent(hello.node, hello.host);
  status_.on_sign(hello.node, now_);
  send(from.first, Welcome{options_.life, options_.term});
}

void ControllerRelay::handle(Stream& from, const Envelope&, const AgentReady& ready) {
  if (from.second.kind != Kind::kAgent) return refuse(from);
  if (from.second.is_fed && !from.second.is_ready) {
    const Peer back = from.second;
    from.second.is_ready = true;
    lose_what_is_not_shown(back);
  }
  if (!from.second.is_ready) network_.on_joined(now_);
  from.second.is_ready = true;
  from.second.arithmetic = ready.arithmetic;
  from.second.complaints = ready.complaints;
  from.second.plan = ready.plan;
  if (!plan_ && ready.plan.view > plan_name_.view) {
    plan_name_ = ready.plan;
    send(from.first, PlanWanted{});
  }
  if (is_draining_) send(from.first, Drain{});
  if (from.second.is_fed) feed_complaints(from.second.node);
  feed_ready_agents();
}

void ControllerRelay::handle(Stream& from, const Envelope&, const Beat& beat) {
  if (from.second.is_fed) feed(AgentAlive{from.second.node, beat.late, beat.starved}, now_);
}

void ControllerRelay::feed_ready_agents() {
  const auto begin = std::count_if(peers_.begin(), peers_.end(), [&](const auto& peer) {
    return peer.second.is_ready && peer.second.node.value < nodes_;
  });
  const bool spares_too = begin == nodes_ || now_ >= spares_wait_until_;
  std::vector<AgentJoined> joined;
  for (auto& [number, peer] : peers_) {
    if (!peer.is_ready || peer.is_fed || (peer.node.value >= nodes_ && !spares_too)) continue;
    peer.is_fed = true;
    joined.push_back({peer.node, peer.arithmetic, complaints_of(peer)});
  }
  std::ranges::sort(joined, {}, &AgentJoined::node);
  for (const AgentJoined& one : joined) feed(one, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const RunHello&) {
  if (from.second.kind != Kind::kUnknown) return refuse(from);
  from.second.kind = Kind::kRun;
  send(from.first, Welcome{options_.life, options_.term});
  for (const Rank rank : processes_.alive())
    send(from.first, RoleProcess{rank, processes_.of(rank).pid});
  tell_what_happened(from.first);
}

void ControllerRelay::tell_what_happened(StreamNumber run) {
  for (ControlMessage& message : history_.tell(time_.lost())) send(run, std::move(message));
}

void ControllerRelay::handle(Stream& from, const Envelope&, const Drain&) {
  if (from.second.kind == Kind::kUnknown) return refuse(from);
  if (from.second.kind == Kind::kOperator && !is_draining_)
    act(JobEvent{"an operator drains the job: the workers finish their step, save and end"});
  drain();
}

void ControllerRelay::drain() {
  is_draining_ = true;
  for (const auto& [number, peer] : peers_) {
    if (peer.is_ready) send(number, Drain{});
  }
}

// The run knows whether it may go on at all, and an operator what he wants.
void ControllerRelay::handle(Stream& from, const Envelope&, const EndJob& wish) {
  if (from.second.kind != Kind::kRun && from.second.kind != Kind::kOperator) return refuse(from);
  feed(EndWanted{wish.reason}, now_);
}

// ---- workers

bool ControllerRelay::speaks_for_role(Stream& from, int64_t start, Rank rank, View since) {
  const Peer& peer = from.second;
  if (peer.kind != Kind::kAgent || !processes_.has(rank)) {
    refuse(from);
    return false;
  }
  if (processes_.hear(rank, start, peer.node, now_)) {
    processes_.of(rank).since = since;
    return true;
  }
  send(from.first, KillWorker{peer.node, rank, since, kReplaced}, start);
  return false;
}

void ControllerRelay::handle(Stream& from, const Envelope& envelope, const WorkerStarted& started) {
  if (!speaks_for_role(from, envelope.start, started.rank, started.since)) return;
  from.second.starts.insert(envelope.start);
  tell_pid(started.rank, started.pid);
}

void ControllerRelay::handle(Stream& from, const Envelope& envelope, const MemberJoined& joined) {
  if (!speaks_for_role(from, envelope.start, joined.rank, joined.since)) return;
  MemberJoined event = joined;
  event.node = from.second.node;
  feed(event, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope& envelope, const MemberSaid& said) {
  if (!speaks_for_role(from, envelope.start, said.rank, said.since)) return;
  const Rank inside = std::visit([](const auto& message) { return message.rank; }, said.message);
  if (inside != said.rank) return refuse(from);
  if (const auto* const trouble = std::get_if<Trouble>(&said.message);
      trouble != nullptr && trouble->accused) {
    if (!processes_.has(*trouble->accused)) return refuse(from);
    hear_accusation(*trouble->accused);
  }
  feed(said, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope& envelope, const MemberAlive& alive) {
  if (speaks_for_role(from, envelope.start, alive.rank, alive.since)) feed(alive, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope& envelope, const WorkerEnded& ended) {
  if (!speaks_for_role(from, envelope.start, ended.rank, ended.since)) return;
  tell_pid(ended.rank, 0);
  WorkerEnded event = ended;
  event.node = from.second.node;
  feed(event, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope& envelope, const WorkerReport& report) {
  if (from.second.kind != Kind::kAgent || !processes_.has(report.rank)) return refuse(from);
  if (envelope.start < processes_.of(report.rank).start) return;
  status_.on_report(report);
  tell_run(report);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const WorkerLogTail& words) {
  if (from.second.kind != Kind::kAgent) return refuse(from);
  tell_run(words);
}

// ---- the core

void ControllerRelay::feed(const ControllerEvent& event, absl::Duration failed) {
  if (end_) return;
  failed_ = failed;
  for (const ControllerAction& action : core_.on(now_, event)) {
    std::visit([this](const auto& a) { act(a); }, action);
  }
  if (core_.newest() != newest_) {
    newest_ = core_.newest();
    status_.on_commit(newest_);
    moved_ = now_;
  }
  if (const auto note = history_.note(core_.recoveries(), core_.recovery_changes(), failed_))
    tell_run(shifted(*note, time_.lost()));
}

void ControllerRelay::act(const StartWorker& start) {
  const RoleProcesses::Process& former = processes_.of(start.rank);
  if (former.pid != 0 && former.node != start.node) {
    send_to_node(former.node, KillWorker{former.node, start.rank, start.since, kReplaced},
                 former.start);
  }
  const int64_t number = processes_.begin(start.rank, start.node, now_);
  processes_.of(start.rank).since = start.since;
  if (const auto agent = agents_.find(start.node); agent != agents_.end())
    peers_[agent->second].starts.insert(number);
  send_to_node(start.node, start, number);
}

void ControllerRelay::act(const KillWorker& kill) {
  failed_ = std::min(failed_, processes_.of(kill.rank).heard);
  send_to_node(kill.node, kill, processes_.of(kill.rank).start);
}

void ControllerRelay::act(const SendOrder& order) {
  const RoleProcesses::Process& newest = processes_.of(order.rank);
  send_to_node(newest.node, order, newest.start);
}

void ControllerRelay::act(const JobEvent& tell) {
  actions_.emplace_back(LogLine{tell.text});
  tell_run(tell);
}

void ControllerRelay::act(const EndJob& end) {
  actions_.emplace_back(LogLine{absl::StrCat("the job ends: ", end.reason)});
  std::erase_if(peers_, [](const auto& peer) { return peer.second.broke.has_value(); });
  for (const auto& [number, peer] : peers_) {
    if (peer.kind != Kind::kUnknown) send(number, end);
    has_told_run_ = has_told_run_ || peer.kind == Kind::kRun;
  }
  end_ = end;
}

void ControllerRelay::say_farewell(StreamNumber to, const ControlMessage& hello) {
  const bool is_run = std::holds_alternative<RunHello>(hello);
  if (!is_run && !std::holds_alternative<AgentHello>(hello) &&
      !std::holds_alternative<OperatorHello>(hello))
    return;
  peers_.try_emplace(to);  // until it goes
  has_told_run_ = has_told_run_ || is_run;
  if (is_run) tell_what_happened(to);
  send(to, *end_);
}

// ---- the way out

void ControllerRelay::send(StreamNumber to, ControlMessage message, int64_t start) {
  actions_.emplace_back(SendEnvelope{to, {start, std::move(message)}});
}

void ControllerRelay::send_to_node(Node node, ControlMessage message, int64_t start) {
  if (const auto agent = agents_.find(node); agent != agents_.end())
    send(agent->second, std::move(message), start);
}

void ControllerRelay::tell_run(ControlMessage message) {
  bool is_told = false;
  for (const auto& [number, peer] : peers_) {
    if (peer.kind != Kind::kRun) continue;
    send(number, message);
    is_told = true;
  }
  if (is_told || std::holds_alternative<RecoveryNote>(message) ||
      std::holds_alternative<RoleProcess>(message))
    return;
  history_.keep(std::move(message));
}

void ControllerRelay::tell_pid(Rank rank, pid_t pid) {
  processes_.of(rank).pid = pid;
  tell_run(RoleProcess{rank, pid});
}

}  // namespace evermoe
