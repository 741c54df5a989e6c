// What stands between the streams of a controller and its core: who is at the other end of which
// stream, which process of a role is meant, who has to hear what. Pure: envelopes and time in,
// envelopes out.
//
// Invariants:
// * The core hears only of the newest process of every role: one whose node was lost, or that was
//   given up, may live on for a while and speak. It is told to end.
// * The core hears AgentJoined only after what lives on that node has registered, so a new
//   controller does not start what is there already.
// * Nor of spare nodes before the others are there, or have had their time: they are not to begin.
// * A controller that stood still itself takes nobody for silent (stall_adjusted_clock.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "control/controller/controller_core.h"
#include "control/controller/relay/network_rounds.h"
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
  // broke may be back within so long, unless other nodes cannot reach its workers either. One that
  // is silent is not lost while the job goes on, which it cannot without its workers; nor is most
  // of the nodes at once before cut_off_max: then it is this controller that is cut off.
  absl::Duration return_max = absl::ZeroDuration();
  absl::Duration cut_off_max = absl::Minutes(1);
  absl::Duration own_standstill = absl::Seconds(2);  // stall_adjusted_clock.h
  // Whole plans are sent to so many agents; each of them tells as many others (plan_tree.h).
  size_t plan_branches = 4;
  // So long an agent waits for a plan from one that was sent it, before it asks here; and so much
  // longer for every agent between them, so that a whole branch does not ask for one that is late.
  absl::Duration plan_patience = absl::Seconds(2);
  absl::Duration plan_patience_more = absl::Milliseconds(500);
  NetworkPace network;  // if ControllerOptions::network_max is not 0
};

struct SendEnvelope {
  StreamNumber to;
  Envelope envelope;
};
struct CutStream {
  StreamNumber stream;
};
struct LogLine {
  std::string text;
};
using RelayAction = std::variant<SendEnvelope, CutStream, LogLine>;

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
  bool is_awaited() const { return !peers_.empty() || !has_told_run_; }

 private:
  // kDismissed: an agent that is free to go; what it still says is nobody's business.
  enum class Kind { kUnknown, kAgent, kRun, kOperator, kDismissed };
  struct Peer {
    Kind kind = Kind::kUnknown;
    Node node;
    pid_t pid = 0;
    bool is_ready = false;
    bool is_fed = false;  // the core knows it
    std::string arithmetic;
    std::vector<std::string> complaints;  // of its own
    std::string lines;                    // where other agents reach it
    PlanName plan;  // the newest one that it has, or has been sent whole or as changes
    absl::Duration heard;
    std::set<int64_t> starts;  // of the workers that it has shown since it attached
    // Its line broke then, and why.
    std::optional<absl::Duration> broke;
    std::string why;
  };
  using Stream = std::pair<const StreamNumber, Peer>;
  using PlanReaders = std::vector<PlanUpdate::Addressee>;

  void handle(Stream& from, const Envelope&, const AgentHello& hello);
  void handle(Stream& from, const Envelope&, const RunHello&);
  void handle(Stream& from, const Envelope&, const AgentReady& ready);
  void handle(Stream& from, const Envelope&, const PlanUpdate& update);
  void handle(Stream& from, const Envelope&, const PlanWanted& wanted);
  void handle(Stream& from, const Envelope&, const PlanHeld& held);
  void handle(Stream& from, const Envelope&, const PartnersAsked& report);
  void handle(Stream& from, const Envelope& envelope, const WorkerStarted& started);
  void handle(Stream& from, const Envelope& envelope, const MemberJoined& joined);
  void handle(Stream& from, const Envelope& envelope, const MemberSaid& said);
  void handle(Stream& from, const Envelope& envelope, const MemberAlive& alive);
  void handle(Stream& from, const Envelope& envelope, const WorkerEnded& ended);
  void handle(Stream& from, const Envelope& envelope, const WorkerReport& report);
  void handle(Stream& from, const Envelope&, const WorkerLogTail& words);
  void handle(Stream& from, const Envelope&, const OperatorHello&);
  void handle(Stream& from, const Envelope&, const NodeLeaves&);
  void handle(Stream& from, const Envelope&, const Drain&);
  void handle(Stream& from, const Envelope&, const EndJob& wish);
  void handle(Stream& from, const Envelope&, const Beat& beat);
  template <typename Other>
  void handle(Stream& from, const Envelope&, const Other&) {
    refuse(from);  // nobody says that to a controller
  }

  void act(const StartWorker& start);
  void act(const KillWorker& kill);
  void act(const SendOrder& order);
  void act(const OpenView& send);
  void act(const EndJob& end);
  void act(const DismissNode& dismiss);
  void act(const DrainJob&) { drain(); }
  void act(const CheckNetwork&);
  void act(const JobEvent& tell);

  void tell_whole(std::vector<std::pair<StreamNumber, PlanReaders>> to);
  bool speaks_for_role(Stream& from, int64_t start, Rank rank, View since);
  // `failed`: since when what the event tells may be so.
  void feed(const ControllerEvent& event, absl::Duration failed);
  // To a run that has just come: recoveries, and what nobody was there to hear.
  void tell_what_happened(StreamNumber run);
  void say_farewell(StreamNumber to, const ControlMessage& hello);
  void lose_agent(const Peer& agent, const std::string& why);
  void take_back(Stream& from, StreamNumber former);
  void lose_what_is_not_shown(const Peer& agent);
  bool is_job_going_on() const { return now_ < moved_ + options_.silence_max; }
  bool is_cut_off() const;
  bool is_lost(const Peer& peer, bool is_cut_off) const;
  void lose_who_did_not_return();
  void hear_accusation(Rank accused);
  bool is_accused(Node node) const;
  void send(StreamNumber to, ControlMessage message, int64_t start = 0);
  void send_to_node(Node node, ControlMessage message, int64_t start);
  void tell_run(ControlMessage message);
  void tell_pid(Rank rank, pid_t pid);
  void feed_ready_agents();
  void look_after_network();
  void begin_network_round();
  void end_network_round();
  std::vector<std::string> complaints_of(const Peer& agent) const;
  void feed_complaints(Node node);
  void cut(StreamNumber stream, const std::string& why);
  void refuse(Stream& from) { cut(from.first, "it says what makes no sense"); }
  void beat(absl::Duration late);
  void drain();
  void let_leave();
  std::vector<RelayAction> take() { return std::exchange(actions_, {}); }

  const RelayOptions options_;
  const Topology topology_;
  const int nodes_;  // that begin
  const int spares_;
  const absl::Duration spares_wait_until_;
  ControllerCore core_;
  std::vector<RelayAction> actions_;  // of the call at hand
  StallAdjustedClock time_;
  absl::Duration now_;  // as all the times below without own standstill
  absl::Duration next_beat_;
  absl::Duration failed_;  // of the event at hand
  Commit newest_{-1};      // that the core knows, and since when
  absl::Duration moved_ = -absl::InfiniteDuration();

  std::map<StreamNumber, Peer> peers_;
  std::map<Node, StreamNumber> agents_;
  RoleProcesses processes_;
  RunHistory history_;
  NetworkRounds network_;
  std::optional<Plan> plan_;  // the newest one; a former controller's an agent is asked for
  PlanName plan_name_;
  StatusBook status_;
  std::map<Rank, absl::Duration> accused_;  // by others that cannot reach them; when last
  std::map<Node, absl::Duration> leaving_;  // not told to the core yet; when
  bool is_draining_ = false;
  std::optional<EndJob> end_;
  bool has_told_run_ = false;  // of the end
};

}  // namespace evermoe
