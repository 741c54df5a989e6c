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

#include <optional>
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
#include "control/controller/standstill_watch.h"
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
  // When to be called with TimePassed at the latest.
  absl::Duration next_deadline() const;

  View view() const { return view_.number(); }
  bool is_open() const { return view_.is_open(); }
  Commit newest() const { return progress_.newest(); }
  const std::vector<RecoveryRecord>& recoveries() const { return journal_.records(); }
  // Who keeps the copies of each rank, with the present nodes (parallel/failure_domains.h).
  CopyHolders holders() const { return holders_for(topology_, roles_, options_); }

 private:
  void handle(const AgentJoined& event) { nodes_.join(event.node, now_); }
  void handle(const AgentLost& event);
  void handle(const AgentAlive& event);
  void handle(const MemberJoined& event);
  void handle(const WorkerEnded& event);
  void handle(const MemberSaid& event);
  void handle(const MemberAlive& event);
  void handle(const EndWanted& event) { end(false, event.why); }
  void handle(const TimePassed&) {}
  void hear(const Report& report);
  void hear(const Trouble& trouble);
  void hear(const Milestone& milestone);
  void hear(const Progress& progress);
  void hear(const Finished& finished) { roles_[finished.rank].finished = true; }

  // ---- losses
  bool computes_alike(const MemberJoined& event);
  void take_back(const MemberJoined& event);
  // `is_same_loss`: with the one before it, which has been counted.
  void lose(Rank rank, const std::string& how, bool is_same_loss = false);
  void kill_and_lose(Rank rank, const std::string& why, const std::string& how,
                     bool is_same_loss = false);
  void note_loss(Rank rank, const std::string& how);
  bool may_start_again(Rank rank, const std::string& how);
  void count_failure(const std::string& how);
  void lose_the_absent();
  void note_unseen_losses(const Plan& plan);

  // ---- time
  void check_deadlines();
  bool is_silent(const RoleState& role) const;
  bool is_out_of_sight(const RoleState& role) const;
  bool is_deaf() const;
  void follow_suspicion();
  void watch_pace();
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
  void end(bool ok, std::string reason, bool bad_input = false);

  std::string name_of(Rank rank) const { return topology_.name_of(rank); }
  void tell(std::string text) { actions_.emplace_back(JobEvent{std::move(text)}); }
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
  RecoveryJournal journal_;
  std::optional<Suspicion> suspicion_;
  std::optional<MemberJoined> first_joined_;  // with whose arithmetic all others have to agree
  // ---- until it knows whom it has
  bool is_adopting_ = true;
  absl::Duration adoption_ends_;    // unless somebody may still come
  absl::Duration adoption_moved_;   // the newest commit, or the beginning
  bool has_heard_trouble_ = false;  // somebody misses somebody else
  std::string holders_told_;        // why these
  bool has_ended_ = false;
};

}  // namespace evermoe
