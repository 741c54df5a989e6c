// What stands between the streams of a controller and its core: it takes what arrives to those who
// judge it, and does what they and the core decide. Pure: envelopes and time in, envelopes out.
//
// What it knows, and the rules by which it judges, are classes of their own: who is at the other
// end of which stream (relay_peers.h), whom the core hears of (agent_admission.h), who is lost
// (agent_losses.h) and who leaves (leaving_agents.h), which process plays a role and what is said
// of it (role_processes.h, role_messages.h), who is sent a plan by whom (plan_sender.h), whether
// machines reach each other (network_rounds.h), what a run has to hear (run_history.h), and the
// way out (relay_outbox.h).
//
// Invariants:
// * The core hears only of the newest process of every role: one whose node was lost, or that was
//   given up, may live on for a while and speak. It is told to end.
// * The core hears AgentJoined only after what lives on that node has registered, so a new
//   controller does not start what is there already.
// * Nor of spare nodes before the others are there, or have had their time: they are not to begin.
// * A controller that stood still itself takes nobody for silent (stall_adjusted_clock.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/controller/controller_core.h"
#include "control/controller/plans/plan_sender.h"
#include "control/controller/relay/agent_admission.h"
#include "control/controller/relay/agent_losses.h"
#include "control/controller/relay/leaving_agents.h"
#include "control/controller/relay/network_rounds.h"
#include "control/controller/relay/node_claims.h"
#include "control/controller/relay/relay_outbox.h"
#include "control/controller/relay/relay_peers.h"
#include "control/controller/relay/role_messages.h"
#include "control/controller/relay/role_processes.h"
#include "control/controller/relay/run_history.h"
#include "control/controller/stall_adjusted_clock.h"
#include "control/controller/status/status_book.h"
#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

struct RelayOptions {
  int64_t life = 0;  // how many controllers the job had before this one
  FolderTerm term;   // of its run
  absl::Duration beat = absl::Milliseconds(500);
  // An agent that is silent for so long is lost, with all its workers. One that dies is noticed at
  // once.
  absl::Duration silence_max = absl::Seconds(10);
  // Of lines that may break or be cut though both ends live; 0: they do not. An agent whose line
  // broke may be back within so long, unless other nodes cannot reach its workers either. While the
  // job goes on, which it cannot without its workers, neither that one is lost nor one that is
  // silent; nor is most of the nodes at once for silence before cut_off_max: then it is this
  // controller that is cut off.
  absl::Duration return_max = absl::ZeroDuration();
  absl::Duration cut_off_max = absl::Minutes(1);
  absl::Duration own_standstill = absl::Seconds(2);  // stall_adjusted_clock.h
  // Whole plans are sent to so many agents; each of them tells as many others (plan_tree.h).
  size_t plan_branches = 4;
  // So long an agent waits for a plan from one that was sent it, before it asks here; and so much
  // longer for every agent between them, so that a whole branch does not ask for one that is late.
  absl::Duration plan_patience = absl::Seconds(2);
  absl::Duration plan_patience_more = absl::Milliseconds(500);
  absl::Duration leave_grace = absl::Milliseconds(300);  // leaving_agents.h
  NetworkPace network;  // if ControllerOptions::network_max is not 0
};

class ControllerRelay {
 public:
  ControllerRelay(Topology topology, const ControllerOptions& core, RelayOptions options,
                  absl::Duration now);

  std::vector<RelayAction> on_envelope(absl::Duration now, StreamNumber from,
                                       const Envelope& envelope);
  std::vector<RelayAction> on_broken(absl::Duration now, StreamNumber stream,
                                     const std::string& why);
  std::vector<RelayAction> on_time(absl::Duration now);
  absl::Duration next_deadline() const;

  // How the job ended; all have been told. Nothing more happens then, but that who comes late is
  // told, too.
  const std::optional<EndJob>& end() const { return end_; }
  // Other machines have said that they do not reach it.
  bool is_unreached(Node node) const { return !network_.complaint(node).empty(); }
  // After the end: somebody who was told is still there, or no run has been told yet.
  bool is_awaited() const { return !peers_.is_empty() || !history_.is_end_told(); }

 private:
  using Stream = RelayPeers::Stream;

  void handle(Stream& from, const Envelope&, const AgentHello& hello);
  void handle(Stream& from, const Envelope&, const AgentReady& ready);
  void handle(Stream& from, const Envelope&, const Beat& beat);
  void handle(Stream& from, const Envelope&, const NodeLeaves&);
  void handle(Stream& from, const Envelope&, const StandbysKept& kept);
  void handle(Stream& from, const Envelope&, const JoinerReady& ready);
  void handle(Stream& from, const Envelope&, const PartnersAsked& report);
  void handle(Stream& from, const Envelope&, const RunHello&);
  void handle(Stream& from, const Envelope&, const OperatorHello&);
  void handle(Stream& from, const Envelope&, const Drain&);
  void handle(Stream& from, const Envelope&, const EndJob& wish);
  void handle(Stream& from, const Envelope&, const MoveWanted& wish);
  void handle(Stream& from, const Envelope&, const TermHeld& held);
  template <AboutRole Message>
  void handle(Stream& from, const Envelope& envelope, const Message& message) {
    if (!from.second.is_agent()) return refuse(from);
    follow(from, envelope.start, message.rank,
           hear_of_role(now_, from.second.node, envelope.start, message, processes_));
  }
  template <AboutPlan Message>
  void handle(Stream& from, const Envelope&, const Message& message) {
    if (!from.second.is_agent()) return refuse(from);
    follow(from, plans_.hear(from.second, message));
  }
  template <typename Other>
  void handle(Stream& from, const Envelope&, const Other&) {
    refuse(from);  // nobody says that to a controller
  }
  bool hear_of_workers(Stream& from, const Beat& beat);
  void follow(Stream& from, int64_t start, Rank rank, HeardOfRole heard);
  void follow(Stream& from, PlanAnswer answer);

  void act(const StartWorker& start);
  void act(const KillWorker& kill);
  void act(const SendOrder& order);
  void act(const OpenView& open);
  void act(const EndJob& end);
  void act(const DismissNode& dismiss);
  void act(const DrainJob&);
  void act(const CheckNetwork&) { network_.want(now_); }
  void act(const KeepStandbys& order) { out_.send_to_node(order.node, order); }
  void act(const JoinerWanted& order) { out_.send_to_node(order.node, order); }
  void act(const JobEvent& tell);
  void act(const LanesChanged& change) { out_.tell_run(change); }
  void act(const StragglerFound& found) { out_.tell_run(found); }
  void act(const SlowLinkFound& found) { out_.tell_run(found); }
  void act(const ConfirmTerm& question);
  void act(const MoveAnswer& answer) { out_.send(wishes_, answer); }

  // `failed`: since when what the event tells may be so.
  void feed(const ControllerEvent& event, absl::Duration failed);
  // The run, of recoveries and moves that have changed.
  void tell_history(absl::Duration failed);
  void feed_ready_agents();
  void feed_complaints(Node node);
  void take_standbys(Stream& from, const StandbysKept& kept);
  void lose_agent(const RelayPeer& agent, const std::string& why);
  void take_stock(const RelayPeer& agent);
  void cut(StreamNumber stream, const std::string& why);
  void refuse(Stream& from) { cut(from.first, "it says what makes no sense"); }
  void beat(absl::Duration late);
  void admit(Stream& from, const AgentHello& hello);
  void admit_claims();
  void refuse_claims(const RelayPeer& agent);
  void look_after_network();
  void tell_pid(Rank rank, pid_t pid);
  void say_farewell(StreamNumber to, const ControlMessage& hello);

  const RelayOptions options_;
  const Topology topology_;
  const AgentAdmission admission_;
  ControllerCore core_;
  StallAdjustedClock time_;
  absl::Duration now_;  // as all the times below without own standstill
  absl::Duration next_beat_;
  StreamNumber wishes_;  // on which the wish at hand has come

  RelayPeers peers_;
  RunHistory history_;
  RelayOutbox out_;  // of the call at hand
  RoleProcesses processes_;
  AgentLosses losses_;
  NodeClaims claims_;
  PlanSender plans_;
  NetworkRounds network_;
  LeavingAgents leaving_;
  StatusBook status_;
  std::optional<ConfirmTerm> question_;  // that no run has answered
  bool is_draining_ = false;
  std::optional<EndJob> end_;
};

}  // namespace evermoe
