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
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/recovery_record.h"
#include "control/controller/step_pace.h"
#include "parallel/failure_domains.h"
#include "parallel/topology.h"
#include "recovery/plan/make_plan.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

using Node = StrongId<struct NodeName, int32_t>;

// ---- events

struct AgentJoined {
  Node node;
};
struct AgentLost {  // and with it every worker of its node
  Node node;
  std::string why;
};
struct AgentAlive {  // a sign of life
  Node node;
};
// A worker has come to life, or has found a new controller.
struct MemberJoined {
  Rank rank;
  View since;  // as given by StartWorker
  Node node;
  std::string address;  // of its transport
  View newest_view;     // 0 for a fresh one
  bool is_open = false;
  bool has_finished = false;
  View stage_epoch;
  Commit newest{-1};
  // Lines "key=value" of what determines the bits of its arithmetic (tensor/arithmetic_identity.h).
  std::string arithmetic;
};
struct WorkerEnded {
  Rank rank;
  View since;
  Node node;
  std::string how;        // "killed by signal 9 (Killed)"
  bool is_clean = false;  // exit code 0
  // No restart can help; `how` is the line for the user.
  bool bad_input = false;
  bool is_hopeless = false;  // though the input is not bad
};
struct MemberSaid {
  Rank rank;
  View since;
  MemberMessage message;
};
struct MemberAlive {  // a sign of life
  Rank rank;
  View since;
  View entered;  // MemberViews::entered_view()
};
struct TimePassed {};
using ControllerEvent = std::variant<AgentJoined, AgentLost, AgentAlive, MemberJoined, WorkerEnded,
                                     MemberSaid, MemberAlive, TimePassed>;

// ---- actions

struct StartWorker {
  Node node;
  Rank rank;
  View since;
};
struct KillWorker {
  Node node;
  Rank rank;
  View since;
  std::string why;
};
struct SendOrder {
  Rank rank;
  View since;
  ControllerMessage message;
};
struct EndJob {
  bool ok = false;
  bool bad_input = false;
  std::string reason;
};
struct JobEvent {  // a line of the story, for people
  std::string text;
};
using ControllerAction = std::variant<StartWorker, KillWorker, SendOrder, EndJob, JobEvent>;

struct ControllerOptions {
  int nodes = 1;   // that play roles from the start
  int spares = 0;  // nodes nodes .. nodes + spares - 1, which take over what a lost node played
  int copies = 1;
  // A rank and the holders of its copies are in different domains of this level, where there are
  // enough of them; else of the next smaller one. nullopt: any other process will do.
  std::optional<DomainLevel> copy_level = DomainLevel::kNode;
  int racks = 0;  // nodes are dealt to racks in order; 0: every node is its own
  bool is_protected = true;
  bool restart_all_allowed = true;  // false: refuse instead of going back to the durable checkpoint
  // Another controller has run this job before: members may live.
  bool takes_over = false;
  // All views that it opens are newer: of members that it never hears of, former controllers may
  // have opened some, and no two plans may have one number.
  View views_after;
  // If it takes over it waits so long for members to find it before it takes them for lost.
  absl::Duration adoption = absl::Seconds(2);
  // From an accusation until the accused is taken for lost though nobody saw it die.
  absl::Duration grace = absl::Milliseconds(500);
  absl::Duration start_max = absl::Minutes(2);    // from StartWorker until it joins
  absl::Duration report_max = absl::Seconds(10);  // from a StopOrder until the report
  // Between two signs of life, while its agent is heard: when it is not, nothing is known of its
  // workers. No role is started on a node whose agent has been silent for half of it: the verdict
  // on the node comes first.
  absl::Duration silence_max = absl::Seconds(5);
  // A job of which nothing is heard for so long, or for so many median steps if that is longer,
  // stands still though all its workers live. The next view shows who does not move.
  absl::Duration step_max = absl::Minutes(1);
  double medians_max = 20;
  absl::Duration load_max = absl::Minutes(10);  // the same while somebody still gathers its state
  // From that view until those are replaced; a median step if that is longer.
  absl::Duration probe_min = absl::Seconds(5);
  int losses_max = 50;  // in a row without progress; a node with all its workers is one
  // Without protection every failure starts the whole job again from its newest durable checkpoint.
  // So many restarts in a row without progress (a step that was never committed before, or a newer
  // checkpoint) are allowed; before the n-th one the job waits backoff * 2^(n-1), at most
  // backoff_max.
  int restarts_max = 50;
  absl::Duration backoff = absl::ZeroDuration();
  absl::Duration backoff_max = absl::Seconds(30);
  // What is not a step (the first one, an evaluation, a checkpoint, the end) may take `patience`
  // times as long as a step before the job counts as standing still.
  int patience = 1;
  Step steps{std::numeric_limits<int64_t>::max()};  // of the whole job
  int64_t evaluate_every_steps = 0;                 // 0: only at the end
  int64_t checkpoint_every_steps = 0;
};

class ControllerCore {
 public:
  ControllerCore(Topology topology, ControllerOptions options, absl::Duration now);

  std::vector<ControllerAction> on(absl::Duration now, const ControllerEvent& event);
  // When to be called with TimePassed at the latest.
  absl::Duration next_deadline() const;

  View view() const { return view_; }
  bool is_open() const { return is_open_; }
  Commit newest() const { return newest_; }
  const std::vector<RecoveryRecord>& recoveries() const { return recoveries_; }
  // Who keeps the copies of each rank, with the present nodes (parallel/failure_domains.h).
  CopyHolders holders() const;

 private:
  struct RoleState {
    enum class Phase { kNone, kStarting, kJoined };
    Phase phase = Phase::kNone;
    Node node;
    View since;
    std::string address;
    absl::Duration deadline = absl::InfiniteDuration();  // for joining or reporting
    absl::Duration heard = absl::ZeroDuration();
    std::optional<Report> report;  // of view_
    View entered;
    bool finished = false;
    bool released = false;
    int64_t failures_seen =
        0;  // failures_counted_ when it was started, or when the newest plan went out
  };
  struct Suspicion {
    absl::Duration due;
    std::string what;                            // the first complaint
    std::map<Rank, std::optional<Rank>> blames;  // who blames whom
  };

  void handle(const AgentJoined& event);
  void handle(const AgentLost& event);
  void handle(const AgentAlive& event);
  void handle(const MemberJoined& event);
  void handle(const WorkerEnded& event);
  void handle(const MemberSaid& event);
  void handle(const MemberAlive& event);
  void handle(const TimePassed&) {}
  void hear(const Report& report);
  void hear(const Trouble& trouble);
  void hear(const Milestone& milestone);
  void hear(const Progress& progress);
  void hear(const Finished& finished);

  RoleState& role_state(Rank rank) { return role_states_[static_cast<size_t>(rank.value)]; }
  bool is_present(Rank rank, View since) const;
  bool computes_alike(const MemberJoined& event);
  bool all_joined() const;
  std::string name_of(Rank rank) const { return topology_.name_of(rank); }
  int workers_on(Node node) const;
  Node node_for(Rank rank);
  // Its agent is not heard: it may be lost, and what is started there would be lost with it.
  bool is_in_doubt(Node node) const;
  static std::optional<Rank> accused_of(const Suspicion& suspicion);
  bool is_silent(const RoleState& role_state) const;
  // `is_same_loss`: with the one before it, which has been counted.
  void lose(Rank rank, const std::string& how, bool is_same_loss = false);
  void count_failure(const std::string& how);
  void note_loss(Rank rank, const std::string& how);
  void lose_the_absent();
  void end_if_all_gone();
  void open_next_view(const std::string& why);
  void start_missing();
  void check_deadlines();
  void watch_pace();
  absl::Duration pace_deadline() const;
  bool does_more_than_steps() const;
  void note_progress(Commit newest);
  std::vector<Rank> who_stands_still() const;
  void reconsider();
  void send_plan();
  void release_if_finished();
  void end(bool ok, std::string reason, bool bad_input = false);
  RecoveryRecord* present_recovery();
  int number_of_recovery();
  void note_unseen_losses(const Plan& plan);
  void follow_recovery(const Plan& plan);
  void tell_step_again(const Milestone& milestone);
  void note_stage_done(std::set<Rank>& waiting, Rank rank, const std::string& what);

  const Topology topology_;
  const ControllerOptions options_;
  absl::Duration now_;
  std::vector<ControllerAction> actions_;

  std::vector<RoleState> role_states_;        // by rank
  std::optional<MemberJoined> first_joined_;  // with whose arithmetic all others have to agree
  std::map<Node, bool> agents_;               // alive
  std::map<Node, absl::Duration> agents_heard_;
  View view_;
  bool is_open_ = false;
  std::string
      restart_reason_;  // why the whole job has to go back in the next view; empty: it need not
  bool is_adopting_ = true;
  absl::Duration adoption_ends_;
  std::vector<View> stage_epochs_;
  Commit newest_{-1};    // of the present run: a restart of all begins with none
  Commit furthest_{-1};  // of all runs
  View restarted_;       // of the newest restart of all
  Commit first_{-1};  // the first commit after it, unless the job has come further than ever since
  int losses_ = 0;
  int64_t failures_counted_ = 0;  // without protection: those that no earlier one explains
  int failures_in_row_ = 0;       // of these, without progress
  bool has_planned_ = false;
  int64_t planned_failures_ = 0;  // failures_counted_ when the newest plan went out
  absl::Duration start_at_ = -absl::InfiniteDuration();  // the end of a back-off
  StepPace pace_;
  absl::Duration moved_;  // when the newest commit or milestone came, or the newest plan went out
  bool was_commit_ = false;                  // that was a commit
  std::optional<absl::Duration> probe_due_;  // this view was opened to see who moves
  bool is_probing_ = false;
  std::optional<Suspicion> suspicion_;
  std::vector<std::vector<Rank>> former_holders_;
  std::string holders_told_;  // why these
  std::vector<RecoveryRecord> recoveries_;
  // Of the plan in force: ranks that have not gathered their state, or not run their steps, again.
  std::set<Rank> without_state_, behind_;
  std::set<Rank> untold_state_;  // without a state, for the story
  absl::Duration told_again_ = -absl::InfiniteDuration();
  int verified_ = 0;  // survivors that have compared their state since the plan
  bool has_ended_ = false;
};

}  // namespace evermoe
