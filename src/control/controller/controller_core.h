// The controller of a job: who plays which role, when a new view opens, and what is done about
// every failure. Pure: events and time in, actions out.
//
// Its state is soft. Members go on without it, and a new controller learns everything from the
// members and agents that register with it: if all roles are played in one open view it adopts that
// view, else it opens the next one.
//
// A view opens in two moves. All members are told to stop (no commit of the old view counts any
// more) and report; when every role is played and has reported, the plan goes out. A failure before
// the plan changes what the plan will be; a failure after it opens the next view. So a failure
// during a recovery is nothing special.
//
// Here are only events (controller_events.cc), the opening of views, and what is done about
// decisions (controller_core.cc). A decision is made by a class or a function of its own, from the
// time, what is known and the options:
//
//   beginning/job_beginning.h    what is waited for before roles are given
//   losses/loss_rules.h          what follows from a loss
//   losses/former_losses.h       whom a former controller has lost and did not live to tell of
//   losses/suspicion.h           who is accused
//   losses/term_confirmation.h   whether its host still has the job
//   losses/node_troubles.h       which node several others have trouble with
//   stalls/silence_limits.h      who is lost because nothing is heard of it
//   standstill_watch.h           whether the job moves, and what is done if not
//   status/arithmetic_check.h    who would compute other bits
//   status/leaving_decision.h    what becomes of a node that leaves
//   status/fitness_news.h        what is told of a node that is fit, or is not
//   role_placement.h             where roles are started, and who keeps whose copies
//   standbys/standby_book.h      where warm processes wait for a role
//   membership/membership_decision.h   which roles train, and which of them move to new nodes
//   membership/wake_preparation.h      what goes before a role that rests moves to a newcomer
//   moves/role_moves.h           how roles move to other nodes while the job trains
//   moves/move_payoff.h          whether that pays
//   moves/crowded_nodes.h        which roles move because their node plays more than its share
//   stragglers/straggler_watch.h  who computes slower than others
//   stragglers/slow_link_watch.h  which links are slower than usual
//
// and what is known is kept in roles (role_table.h), nodes (role_placement.h), the view and its
// plan (job_view.h), progress (loss_limits.h), copies (status/copy_book.h) and the story
// (recovery_journal.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/beginning/job_beginning.h"
#include "control/controller/controller_interface.h"
#include "control/controller/job_view.h"
#include "control/controller/loss_limits.h"
#include "control/controller/losses/former_losses.h"
#include "control/controller/losses/loss_rules.h"
#include "control/controller/losses/node_troubles.h"
#include "control/controller/losses/suspicion.h"
#include "control/controller/losses/term_confirmation.h"
#include "control/controller/membership/membership_book.h"
#include "control/controller/membership/membership_decision.h"
#include "control/controller/membership/wake_preparation.h"
#include "control/controller/moves/move_payoff.h"
#include "control/controller/moves/role_moves.h"
#include "control/controller/recovery_journal.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"
#include "control/controller/stalls/silence_limits.h"
#include "control/controller/standbys/standby_book.h"
#include "control/controller/standstill_watch.h"
#include "control/controller/status/arithmetic_check.h"
#include "control/controller/status/copy_book.h"
#include "control/controller/status/leaving_decision.h"
#include "control/controller/stragglers/slow_link_watch.h"
#include "control/controller/stragglers/straggler_watch.h"
#include "parallel/topology.h"

namespace evermoe {

// One thread at a time.
class ControllerCore {
 public:
  ControllerCore(Topology topology, ControllerOptions options, absl::Duration now);
  ControllerCore(const ControllerCore&) = delete;
  ControllerCore& operator=(const ControllerCore&) = delete;

  std::vector<ControllerAction> on(absl::Duration now, const ControllerEvent& event);
  // When to be called with TimePassed at the latest. Signs of life are only noted: whoever has fed
  // a number of them calls with TimePassed afterwards.
  absl::Duration next_deadline() const;

  View view() const { return view_.number(); }
  bool is_open() const { return view_.is_open(); }
  bool has_begun() const { return beginning_.is_over(); }
  bool is_released() const { return roles_.is_released(); }  // the work of all is done
  Commit newest() const { return progress_.newest(); }
  const std::vector<RecoveryRecord>& recoveries() const { return journal_.records(); }
  int64_t recovery_changes() const { return journal_.changes(); }  // grows when they change
  const std::vector<MoveRecord>& moves() const { return moving_.records(); }
  int64_t move_changes() const { return moving_.changes(); }  // grows when they change
  // Who keeps the copies of each rank, with the present nodes (parallel/failure_domains.h).
  CopyHolders holders() const { return holders_for(topology_, roles_, options_); }

  // ---- for people
  const RoleTable& roles() const { return roles_; }
  const NodeTable& nodes() const { return nodes_; }
  const CopyBook& copies() const { return copies_; }
  const StandbyBook& standbys() const { return standbys_; }
  const StragglerWatch& stragglers() const { return stragglers_; }
  const SlowLinkWatch& links() const { return links_; }
  const RestingRoles& resting() const { return membership_.resting(); }
  absl::Duration median_step() const { return watch_.median_step(); }
  Step steps() const { return options_.steps; }  // of the whole job
  // Some role keeps ending there soon after its start, or what it has computed may be wrong.
  bool is_quarantined(Node node) const {
    return nodes_.is_doubted(node) || rules_.restarts().is_avoided(node);
  }

  // How much later than `limit` a sign of life of the node may come: as late as things are run
  // there, or here.
  absl::Duration allowance(Node node, absl::Duration limit) const {
    return silence_.allowance(now_, node, limit);
  }

 private:
  void handle(const AgentJoined& event);
  void handle(const NodeChecked& event);
  void handle(const NetworkChecked&) { beginning_.on_network_checked(); }
  void handle(const AgentLost& event);
  void handle(const AgentAlive& event);
  void handle(const MemberJoined& event);
  void refuse(const MemberJoined& event);
  bool lose_other_runs();
  void stop(const MemberJoined& event);
  void note_finish(const MemberJoined& event);
  void handle(const WorkerEnded& event);
  void handle(const MemberSaid& event);
  void handle(const MemberAlive& event);
  void handle(const NodeLeaving& event);
  void handle(const StandbysKept& event);
  void handle(const JoinerReady& event) { moving_.on_ready(event); }
  void handle(const StandbyPromoted& event);
  void handle(const MoveWanted& event);
  void handle(const TermHeld& event) { term_.on_held(event); }
  void handle(const EndWanted& event) { end({.reason = event.why, .is_hopeless = true}); }
  void handle(const TimePassed& event) { silence_.note_own(now_, event.late); }
  void hear(const Report& report);
  void hear(const Trouble& trouble);
  void hear(const Milestone& milestone);
  void hear(const Progress& progress);
  void hear(const Finished& finished);
  void hear(const Examined& examined);
  void hear(const CopiesGiven& given) { moving_.on_copies_given(given); }
  void hear(const HandedOver& handed) { moving_.on_handed_over(handed); }
  void hear(const CannotLeave& told) { moving_.on_cannot_leave(told); }
  void hear(const Connected& connected) { moving_.on_connected(connected); }

  // ---- who may play roles
  bool computes_alike(const MemberJoined& event);
  void leave_out_unequal_nodes();
  void check(Node node, const std::vector<std::string>& complaints);
  void doubt(Node node, const std::string& why);

  // ---- losses
  void take_back(const MemberJoined& event);
  void release(const MemberJoined& event);
  void lose(Rank rank, const std::string& how);
  void kill_and_lose(Rank rank, const std::string& why, const std::string& how);
  void note_loss(Rank rank, const std::string& how);
  void note_complaint(const Trouble& trouble);
  void forget_complaints(Rank rank) { troubles_.forget(rank, roles_[rank].since); }
  bool may_go_on(LossDecision decision);

  // ---- who trains
  std::vector<Node> nodes_of_roles() const;
  int share() const { return roles_at_start(roles_.size(), options_.nodes); }
  std::optional<MembershipChange> wanted_membership() const;
  bool may_change_bits();
  bool is_host_still();
  LanesChanged news_of(const MembershipChange& change) const;
  void tell_lanes(const std::vector<MembershipChange>& changes);
  void tell_lanes(const MembershipBook::News& news);
  std::optional<Node> node_to_start(Rank rank);
  std::vector<RoleMove> possible_wakes() const;
  absl::Duration wake_wait_max() const;
  void wake_roles();
  void follow_node_count();

  // ---- nodes that leave
  void let_go();
  void let_go(Node node);
  LeavingDecision decide_leaving(Node node) const;
  bool moves_away_from(Node node, const std::string& why);

  // ---- planned moves (moves/controller_moves.cc)
  absl::StatusOr<std::string> begin_move(const std::vector<Rank>& roles,
                                         const std::vector<Node>& to, const std::string& cause,
                                         const std::set<Node>& avoided = {});
  absl::StatusOr<std::string> drain_node(Node node);
  void move_roles();
  void order_joiners(const std::vector<RoleMove>& moves, bool is_off);
  void order_to_leave(const RoleMoves::Action& action);
  std::map<Node, int> leavers_that_stand_by(const std::vector<RoleMove>& moves) const;
  void switch_roles(const std::vector<RoleMove>& moves, const std::string& news);
  void call_off_former_move(const MemberJoined& event);
  // ---- whether a move pays, and those out of crowded nodes (moves/controller_relief.cc)
  void relieve_crowded();
  bool may_relieve() const;
  bool begin_relief(const std::vector<RoleMove>& moves);
  MovePayoff payoff_of_move(absl::Duration excess) const;

  // ---- stragglers (stragglers/controller_stragglers.cc)
  void watch_stragglers();
  void tell_straggler(const StragglerWatch::Finding& finding);
  void move_stragglers();
  bool move_straggler(Rank rank, const StragglerWatch::Slowness& slowness);
  // ---- links (stragglers/controller_slow_links.cc)
  void note_links(const MemberAlive& event);
  void tell_link(const SlowLinkWatch::Finding& finding);

  // ---- time
  void check_deadlines();
  void follow_suspicion();
  bool may_more_be_said(Rank accused) const;
  std::optional<Node> node_at_fault() const;
  bool may_explain(Node node, const std::vector<Rank>& still) const;
  void lose_unreached(Node node);
  void watch_pace();
  absl::Duration pace_deadline() const;

  // ---- views
  void reconsider();
  void begin();
  // `handed_over`: StopOrder.
  void open_next_view(const std::string& why, Step handed_over = Step(-1));
  void start_missing();
  void tell_why_elsewhere(Rank rank, Node node);
  bool is_calm() const;
  std::map<Node, int> standby_nodes() const;
  void keep_standbys();
  void send_plan();
  bool may_send(const Plan& plan);
  void release_if_finished();
  void end_if_all_gone();
  void end(EndJob how);

  std::string name_of(Rank rank) const { return topology_.name_of(rank); }
  void tell(std::string text) { actions_.emplace_back(JobEvent{std::move(text)}); }
  void tell_in_incident(const std::string& text) { tell(in_incident(journal_.incident(), text)); }
  void tell_in_view(const std::string& text);

  const Topology topology_;
  const ControllerOptions options_;
  absl::Duration now_;
  std::vector<ControllerAction> actions_;  // of the event at hand

  // ---- what is known
  RoleTable roles_;
  NodeTable nodes_;
  StandbyBook standbys_;
  JobView view_;
  JobProgress progress_;
  CopyBook copies_;
  MembershipBook membership_;
  WakePreparation waking_;
  TermConfirmation term_;
  RecoveryJournal journal_;
  RoleMoves moving_;
  // ---- who decides
  JobBeginning beginning_;
  LossRules rules_;
  FormerLosses former_losses_;
  SilenceLimits silence_;
  StandstillWatch watch_;
  std::optional<Suspicion> suspicion_;
  NodeTroubles troubles_;
  ArithmeticCheck arithmetic_;
  StragglerWatch stragglers_;
  SlowLinkWatch links_;
  // ---- what was done
  std::map<Rank, Node> moves_;  // where these are started next
  std::set<Node> moved_from_;   // nodes that leave, from which a planned move was begun
  struct StragglerMoves {
    int count = 0;
    Step next;         // not before this one again
    std::string told;  // why it stays
  };
  std::map<Rank, StragglerMoves> straggler_moves_;
  std::set<Node> slow_nodes_;  // whose roles are stragglers, or were when they were moved away
  absl::Duration next_look_;   // at stragglers and links
  absl::Duration next_relief_look_;
  absl::Duration newest_node_came_ = -absl::InfiniteDuration();  // of those that may grow the job
  std::string holders_told_;                                     // why these
  bool is_draining_ = false;                                     // because a node leaves
  bool is_drained_ = false;  // members have finished before the last step
  bool has_ended_ = false;
};

}  // namespace evermoe
