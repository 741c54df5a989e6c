#include "control/controller/relay/controller_relay.h"

#include <algorithm>
#include <utility>

namespace evermoe {
namespace {

constexpr int kOperatorsMax = 64;

// So that all views of a controller are newer than those of the ones before it. One that opens more
// than these has been met by those whom they concern.
constexpr int64_t kViewsOfOne = 1000;

ControllerOptions with_own_numbers(ControllerOptions core, int64_t life) {
  core.views_after = View(static_cast<uint32_t>(life * kViewsOfOne));
  core.incidents_after = life * kIncidentsOfController;
  return core;
}

// Beside those that a machine has of itself, what others say of its network.
std::vector<std::string> complaints_of(const RelayPeer& agent, const NetworkRounds& network) {
  std::vector<std::string> complaints = agent.complaints;
  if (std::string of_others = network.complaint(agent.node); !of_others.empty())
    complaints.push_back(std::move(of_others));
  return complaints;
}

// One that is to be killed lived then, and nothing later is known: since then it may have failed.
absl::Duration last_sign_of_killed(const std::vector<ControllerAction>& actions,
                                   const RoleProcesses& processes) {
  absl::Duration heard = absl::InfiniteDuration();
  for (const ControllerAction& action : actions) {
    if (const auto* const kill = std::get_if<KillWorker>(&action))
      heard = std::min(heard, processes.of(kill->rank).heard);
  }
  return heard;
}

}  // namespace

ControllerRelay::ControllerRelay(Topology topology, const ControllerOptions& core,
                                 RelayOptions options, absl::Duration now)
    : options_(options),
      topology_(topology),
      admission_({.nodes = core.nodes,
                  .spares = core.spares,
                  .takes_more = core.elastic.is_enabled,
                  .spares_wait_until = now + std::max(core.adoption, core.spares_wait)}),
      core_(topology, with_own_numbers(core, options.life), now),
      time_(now, options.own_standstill),
      now_(now),
      next_beat_(now),
      out_(peers_, history_),
      processes_(topology.world_size(), options.life),
      losses_({options.silence_max, options.return_max, options.cut_off_max}),
      // Both before an agent that is not answered gives its line up.
      claims_({.proof = options.silence_max / 5, .patience = options.silence_max * 4 / 5}),
      plans_({options.plan_branches, options.plan_patience, options.plan_patience_more}),
      network_(options.network, core.network_max, core.takes_over, now),
      leaving_(options.leave_grace),
      status_(now) {}

std::vector<RelayAction> ControllerRelay::on_envelope(absl::Duration now, StreamNumber from,
                                                      const Envelope& envelope) {
  now_ = time_.at(now);
  if (end_) {
    say_farewell(from, envelope.message);
    return out_.take();
  }
  Stream& stream = peers_.meet(from);
  stream.second.heard = now_;
  if (stream.second.kind == PeerKind::kDismissed) return out_.take();
  if (stream.second.is_agent()) {
    status_.on_sign(stream.second.node, now_);
    refuse_claims(stream.second);
  }
  std::visit([&](const auto& message) { handle(stream, envelope, message); }, envelope.message);
  return out_.take();
}

std::vector<RelayAction> ControllerRelay::on_broken(absl::Duration now, StreamNumber stream,
                                                    const std::string& why) {
  now_ = time_.at(now);
  claims_.forget(stream);
  RelayPeer* const peer = peers_.find(stream);
  if (peer != nullptr && !end_ && peer->is_agent() &&
      losses_.may_return(now_, peer->node, processes_)) {
    network_.on_line_broken(peer->node);
    peer->broke = now_;
    peer->why = why;
  } else {
    const std::optional<RelayPeer> gone = peers_.forget(stream);
    if (!end_ && gone && gone->is_agent()) lose_agent(*gone, why);
  }
  if (!end_) admit_claims();
  return out_.take();
}

std::vector<RelayAction> ControllerRelay::on_time(absl::Duration now) {
  now_ = time_.at(now);
  if (end_) return {};
  for (const LostPeer& lost : losses_.not_back(now_, peers_, processes_))
    cut(lost.stream, lost.why);
  admit_claims();
  for (const Node node : leaving_.take(now_, peers_)) {
    // In a job that drains it goes with the others.
    if (!is_draining_) feed(NodeLeaving{node}, now_);
  }
  const absl::Duration late = std::max(absl::ZeroDuration(), now_ - next_beat_);
  if (now_ >= next_beat_) beat(late);
  feed_ready_agents();
  feed(TimePassed{late}, now_);
  if (!end_) look_after_network();
  return out_.take();
}

absl::Duration ControllerRelay::next_deadline() const {
  return std::min({core_.next_deadline(), next_beat_, network_.next_due(),
                   losses_.next_due(peers_, processes_), leaving_.next_due(), claims_.next_due()}) +
         time_.lost();
}

// ---- runs and operators

void ControllerRelay::handle(Stream& from, const Envelope&, const RunHello&) {
  if (from.second.kind != PeerKind::kUnknown) return refuse(from);
  peers_.set_run(from);
  out_.send(from.first, Welcome{options_.life, options_.term});
  for (const Rank rank : processes_.alive())
    out_.send(from.first, RoleProcess{rank, processes_.of(rank).pid});
  for (ControlMessage& message : history_.tell(time_.lost()))
    out_.send(from.first, std::move(message));
  if (question_) out_.send(from.first, *question_);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const OperatorHello&) {
  PeerKind& kind = from.second.kind;
  if (kind == PeerKind::kUnknown && peers_.count(PeerKind::kOperator) < kOperatorsMax)
    kind = PeerKind::kOperator;
  if (kind != PeerKind::kOperator) return refuse(from);
  JobStatus status = status_.status(now_, core_, processes_, topology_, admission_.nodes());
  status.life = options_.life;
  status.term = options_.term;
  status.is_draining = is_draining_;
  out_.send(from.first, std::move(status));
}

void ControllerRelay::handle(Stream& from, const Envelope&, const Drain&) {
  if (from.second.kind == PeerKind::kUnknown) return refuse(from);
  if (from.second.kind == PeerKind::kOperator && !is_draining_)
    act(JobEvent{"an operator drains the job: the workers finish their step, save and end"});
  act(DrainJob{});
}

// The run knows whether it may go on at all, and an operator what he wants.
void ControllerRelay::handle(Stream& from, const Envelope&, const EndJob& wish) {
  if (from.second.kind != PeerKind::kRun && from.second.kind != PeerKind::kOperator)
    return refuse(from);
  feed(EndWanted{wish.reason}, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const MoveWanted& wish) {
  const bool makes_sense =
      std::ranges::all_of(wish.roles, [&](Rank rank) { return processes_.has(rank); });
  if (!makes_sense ||
      (from.second.kind != PeerKind::kRun && from.second.kind != PeerKind::kOperator))
    return refuse(from);
  wishes_ = from.first;
  feed(wish, now_);
}

void ControllerRelay::handle(Stream& from, const Envelope&, const TermHeld& held) {
  if (from.second.kind != PeerKind::kRun) return refuse(from);
  if (question_ && question_->losses == held.losses) question_.reset();
  feed(held, now_);
}

void ControllerRelay::say_farewell(StreamNumber to, const ControlMessage& hello) {
  const bool is_run = std::holds_alternative<RunHello>(hello);
  if (!is_run && !std::holds_alternative<AgentHello>(hello) &&
      !std::holds_alternative<OperatorHello>(hello))
    return;
  peers_.meet(to);  // until it goes
  if (is_run) {
    history_.note_end_told();
    for (ControlMessage& message : history_.tell(time_.lost())) out_.send(to, std::move(message));
  }
  out_.send(to, *end_);
}

// ---- what the core hears

void ControllerRelay::feed(const ControllerEvent& event, absl::Duration failed) {
  if (end_) return;
  const std::vector<ControllerAction> actions = core_.on(now_, event);
  // Before the words that tell of it: this process may end between the two.
  tell_history(std::min(failed, last_sign_of_killed(actions, processes_)));
  for (const ControllerAction& action : actions)
    std::visit([this](const auto& a) { act(a); }, action);
  if (losses_.on_newest(core_.newest(), now_)) status_.on_commit(core_.newest());
  if (core_.is_released()) losses_.on_released();
}

void ControllerRelay::tell_history(absl::Duration failed) {
  if (const auto note = history_.note(core_.recoveries(), core_.recovery_changes(), failed))
    out_.tell_run(shifted(*note, time_.lost()));
  for (MoveNote& note : history_.note(core_.moves(), core_.move_changes()))
    out_.tell_run(shifted(std::move(note), time_.lost()));
}

void ControllerRelay::feed_ready_agents() {
  std::vector<std::pair<AgentJoined, StandbysKept>> joined;
  for (RelayPeer* const peer : admission_.admitted(now_, peers_, core_.has_begun())) {
    peer->is_fed = true;
    joined.push_back(
        {{peer->node, peer->arithmetic, complaints_of(*peer, network_)}, peer->standbys});
  }
  for (const auto& [agent, standbys] : joined) {
    feed(agent, now_);
    if (standbys.warming + standbys.warm > 0) feed(standbys, now_);
  }
}

// If they are others than before.
void ControllerRelay::feed_complaints(Node node) {
  const Stream* const agent = peers_.agent(node);
  if (agent == nullptr) return;
  std::vector<std::string> complaints = complaints_of(agent->second, network_);
  if (core_.nodes().complaints(node) != complaints)
    feed(NodeChecked{node, std::move(complaints)}, now_);
}

void ControllerRelay::look_after_network() {
  if (network_.is_due(now_)) {
    for (NetworkRounds::Order& order : network_.begin(now_, peers_.partners()))
      out_.send_to_node(order.to, std::move(order.order));
  }
  if (!network_.is_over(now_)) return;
  for (std::string& line : network_.take(now_)) act(JobEvent{std::move(line)});
  for (const Node node : peers_.fed()) feed_complaints(node);
  feed(NetworkChecked{}, now_);
}

void ControllerRelay::lose_agent(const RelayPeer& agent, const std::string& why) {
  const Node node = agent.node;
  network_.on_lost(now_, node);
  for (const Rank rank : processes_.alive()) {
    if (processes_.of(rank).node == node) tell_pid(rank, 0);
  }
  out_.tell_run(NodeLost{node, agent.pid, why});
  feed(AgentLost{node, why}, agent.heard);
}

// An agent that is back has shown what lives there.
void ControllerRelay::take_stock(const RelayPeer& agent) {
  for (int32_t r = 0; processes_.has(Rank(r)); ++r) {
    const RoleProcesses::Process process = processes_.of(Rank(r));
    if (process.start == 0 || process.node != agent.node || agent.starts.contains(process.start))
      continue;
    if (process.unconfirmed) {
      // Nothing has ended: the order was lost on the way, or what it started is gone without a
      // word.
      out_.send_to_node(agent.node, *process.unconfirmed, process.start);
      continue;
    }
    tell_pid(Rank(r), 0);
    feed(WorkerEnded{Rank(r), process.since, agent.node, "ended while its node was cut off"},
         process.heard);
  }
}

void ControllerRelay::cut(StreamNumber stream, const std::string& why) {
  out_.cut(stream);
  const std::optional<RelayPeer> peer = peers_.forget(stream);
  if (peer && peer->is_agent()) lose_agent(*peer, why);
}

void ControllerRelay::beat(absl::Duration late) {
  next_beat_ = now_ + options_.beat;
  const std::vector<LostPeer> silent = losses_.silent(
      now_, peers_, [&](Node node) { return core_.allowance(node, options_.silence_max); });
  for (const auto& [number, peer] : peers_) {
    const bool is_silent = std::ranges::find(silent, number, &LostPeer::stream) != silent.end();
    if (!is_silent && !peer.broke) out_.send(number, Beat{.late = late});
  }
  for (const LostPeer& lost : silent) cut(lost.stream, lost.why);
}

void ControllerRelay::tell_pid(Rank rank, pid_t pid) {
  processes_.of(rank).pid = pid;
  out_.tell_run(RoleProcess{rank, pid});
}

}  // namespace evermoe
