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
// Here is what it does about each event. What it knows, and the rules by which it judges, are
// classes of their own: roles (role_table.h), nodes and where roles are started (role_placement.h,
// role_restarts.h),
// the view and its plan (job_view.h), progress and limits (loss_limits.h), whether the job moves
// (standstill_watch.h), who is suspected (suspicion.h), and the story (recovery_journal.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/job_view.h"
#include "control/controller/loss_limits.h"
#include "control/controller/recovery_journal.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_restarts.h"
#include "control/controller/role_table.h"
#include "control/controller/stalls/lateness.h"
#include "control/controller/standstill_watch.h"
#include "control/controller/status/copy_book.h"
#include "control/controller/suspicion.h"
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
  Commit newest() const { return progress_.newest(); }
  const std::vector<RecoveryRecord>& recoveries() const { return journal_.records(); }
  int64_t recovery_changes() const { return journal_.changes(); }  // grows when they change
  // Who keeps the copies of each rank, with the present nodes (parallel/failure_domains.h).
  CopyHolders holders() const { return holders_for(topology_, roles_, options_); }

  // ---- for people
  const RoleTable& roles() const { return roles_; }
  const NodeTable& nodes() const { return nodes_; }
  const CopyBook& copies() const { return copies_; }
  absl::Duration median_step() const { return watch_.median_step(); }
  Step steps() const { return options_.steps; }  // of the whole job
  // Some role keeps ending there soon after its start.
  bool is_quarantined(Node node) const { return restarts_.is_avoided(node); }

  // How much later than `limit` a sign of life of the node may come: as late as things are run
  // there, or here.
  absl::Duration allowance(Node node, absl::Duration limit) const;

 private:
  void handle(const AgentJoined& event);
  void handle(const NodeChecked& event);
  void handle(const NetworkChecked&) { is_network_checked_ = true; }
  void handle(const AgentLost& event);
  void handle(const AgentAlive& event);
  void note_stalls(const AgentAlive& event);
  void handle(const MemberJoined& event);
  void stop(const MemberJoined& event);
  void note_finish(const MemberJoined& event);
  void handle(const WorkerEnded& event);
  void handle(const MemberSaid& event);
  void handle(const MemberAlive& event);
  void handle(const NodeLeaving& event);
  void handle(const EndWanted& event) { end({.reason = event.why, .is_hopeless = true}); }
  void handle(const TimePassed& event) { lateness_.note(now_, event.late); }
  void hear(const Report& report);
  void hear(const Trouble& trouble);
  void hear(const Milestone& milestone);
  void hear(const Progress& progress);
  void hear(const Finished& finished);

  // ---- who computes other bits
  bool computes_alike(const MemberJoined& event);
  void leave_out_unequal_nodes();
  std::string difference_to(const std::string& arithmetic) const;

  // ---- who is not fit to play a role
  void check(Node node, const std::vector<std::string>& complaints);
  bool waits_for_nodes();
  bool waits_for_fit_nodes();
  bool waits_for_network();

  // ---- losses
  void take_back(const MemberJoined& event);
  void lose(Rank rank, const std::string& how);
  void kill_and_lose(Rank rank, const std::string& why, const std::string& how);
  void note_loss(Rank rank, const std::string& how);
  bool may_start_again(Rank rank, const std::string& how);
  void count_failure(const std::string& how);
  void lose_the_absent();
  void note_unseen_losses();

  // ---- nodes that leave (status/leaving_nodes.cc)
  void let_go();
  void let_go(Node node);
  bool can_others_take_over(Node node) const;

  // ---- time
  bool is_routine(const ControllerEvent& event) const;
  void check_deadlines();
  bool is_silent(const RoleState& role) const;
  absl::Duration silence_limit(const RoleState& role) const;
  bool has_had_its_time(RoleState& late) const;
  bool is_out_of_sight(const RoleState& role) const;
  bool is_deaf() const;
  void follow_suspicion();
  void watch_pace();
  bool grant_what_was_starved(const std::vector<Rank>& waited_for);
  absl::Duration pace_deadline() const;

  // ---- views
  void reconsider();
  bool end_adoption();
  absl::Duration adoption_deadline() const;
  void open_next_view(const std::string& why);
  void start_missing();
  absl::Duration start_at(Rank rank) const;
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

  RoleTable roles_;
  NodeTable nodes_;
  JobView view_;
  JobProgress progress_;
  LossLimits limits_;
  RoleRestarts restarts_;
  StandstillWatch watch_;
  Lateness lateness_;                          // of the controller
  std::map<Node, Lateness> lateness_of_node_;  // of agents
  CopyBook copies_;
  std::set<Rank> unseen_losses_;        // that a former controller did not live to tell, told here
  std::optional<Commit> went_back_at_;  // when all went back in memory because nothing moved
  RecoveryJournal journal_;
  std::optional<Suspicion> suspicion_;
  std::optional<MemberJoined> first_joined_;  // with whose arithmetic all others have to agree
  std::map<Node, std::string> arithmetic_;    // of nodes, where it is known and not compared yet
  // ---- until it knows whom it has
  bool is_adopting_ = true;
  absl::Duration adoption_ends_;  // unless somebody may still come
  absl::Duration find_ends_;      // likewise, while more than one node is missing
  absl::Duration begin_ends_;     // of the wait for the machines that the job needs
  bool is_missing_told_ = false;
  std::optional<absl::Duration> fit_ends_;  // of the wait for machines that are fit
  bool is_network_checked_ = false;
  std::optional<absl::Duration> network_ends_;  // of the wait for that
  absl::Duration adoption_moved_;               // the newest commit, or the beginning
  bool has_heard_trouble_ = false;              // somebody misses somebody else
  std::string holders_told_;                    // why these
  bool is_draining_ = false;                    // because a node leaves
  bool is_drained_ = false;                     // members have finished before the last step
  bool has_ended_ = false;
};

}  // namespace evermoe
