// What a controller hears and does, and what it is told at the start (controller_core.h).
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "parallel/failure_domains.h"
#include "parallel/membership.h"
#include "protection/strategy/strategy.h"
#include "recovery/protocol/link_time.h"
#include "recovery/protocol/messages.h"
#include "recovery/protocol/step_time.h"

namespace evermoe {

using Node = StrongId<struct NodeName, int32_t>;

// ---- events

struct AgentJoined {
  Node node;
  std::string arithmetic;  // as MemberJoined's, of what would run there; empty: not known
  // Why its machine is not fit to play a role (control/health/node_health.h); empty: it is.
  std::vector<std::string> complaints;
};
struct NodeChecked {  // of one that has joined
  Node node;
  std::vector<std::string> complaints;  // as AgentJoined's
};
struct NetworkChecked {};  // all that came of CheckNetwork has been told
struct AgentLost {         // and with it every worker of its node
  Node node;
  std::string why;
};
// How long a worker process was ready to compute and got no processor, since it began.
struct StarvedWorker {
  Rank rank;
  View since;
  absl::Duration starved;
};
struct AgentAlive {  // a sign of life
  Node node;
  absl::Duration late;                 // what the agent's own timer was late
  std::vector<StarvedWorker> starved;  // every worker on the node; empty: not known
};
struct NodeLeaving {  // its machine will be taken away soon
  Node node;
};
// The standbys of a node (control/agent/agent_standbys.h), as its agent tells when that changes.
struct StandbysKept {
  Node node;  // filled in by the controller's side
  int32_t warming = 0;
  int32_t warm = 0;     // wait for a role
  std::string failure;  // why one has ended just now that played no role; empty: none has
  // What each that is warm is warm for; none: every role. A role of the same kind is as good.
  std::vector<std::vector<Rank>> warm_for = {};
};
// A standby waits to be given this role (JoinerWanted).
struct JoinerReady {
  Node node;  // filled in by the controller's side
  Rank rank;
  PeerAddress joiner;  // since: JoinerWanted::next
};
// A warm standby plays the role that was to be started there.
struct StandbyPromoted {
  Rank rank;
  View since;
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
  View run;  // in which the run began of which it has states (RunOrigin); 0: it has none yet
  MembershipHistory lanes;  // who rested when in it, up to `newest`
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
  bool is_doubted = false;   // what its machine has computed may be wrong
};
struct MemberSaid {
  Rank rank;
  View since;
  MemberMessage message;
};
struct MemberAlive {  // a sign of life; the controller hears it from the agent, with others
  Rank rank;
  View since;
  View entered;        // MemberViews::entered_view()
  bool waits = false;  // its training thread, for others of its stage
  // Of steps since its last sign of life, oldest first; at most kStepTimesMax.
  std::vector<StepTime> step_times;
  std::vector<LinkTime> link_times;  // measured since then, likewise; at most kLinkTimesMax
};
struct EndWanted {  // of a run that may not go on
  std::string why;
};
// Somebody wants roles to be played elsewhere, answered by MoveAnswer: these, each on its node of
// `to`, which is empty (they are chosen) or as long as `roles`; or all that `drained` plays, which
// leaves the job then.
struct MoveWanted {
  std::vector<Rank> roles;
  std::vector<Node> to;
  std::optional<Node> drained;
};
// Of the run: when it looked after ConfirmTerm, its term was the newest.
struct TermHeld {
  int64_t losses = 0;  // as there
};
struct TimePassed {
  absl::Duration late;  // what the controller's own timer was late
};
using ControllerEvent =
    std::variant<AgentJoined, NodeChecked, NetworkChecked, AgentLost, AgentAlive, NodeLeaving,
                 MemberJoined, WorkerEnded, MemberSaid, MemberAlive, EndWanted, TimePassed,
                 StandbysKept, JoinerReady, StandbyPromoted, MoveWanted, TermHeld>;

// ---- actions

struct StartWorker {
  Node node;
  Rank rank;
  View since;
  int64_t incident = 0;  // for which it is started; 0: none
};
struct KillWorker {
  Node node;
  Rank rank;
  View since;
  std::string why;
  // Its role is another process's: it may live on, without it, as a standby of the node.
  bool becomes_standby = false;
};
struct SendOrder {
  Rank rank;
  View since;
  ControllerMessage message;
};
struct OpenView {  // to all members
  Plan plan;
};
struct EndJob {
  bool ok = false;
  bool bad_input = false;
  std::string reason;
  bool is_hopeless = false;   // not ok, and starting the job again would not help
  bool is_drained = false;    // ok, but before the last step: starting it again goes on
  bool is_dismissal = false;  // ok, and the job goes on: only the node that is told so has left it
};
struct DismissNode {  // a node that leaves plays no role any more
  Node node;
};
// So many standbys are to live on the node: its agent starts those that are missing, and tells of
// them with StandbysKept. What is beyond that stays.
struct KeepStandbys {
  Node node;
  int32_t count = 0;
  // Those that are started warm up for these, which is sooner done; none: for every role.
  std::vector<Rank> roles = {};
};
// A warm standby of the node is to wait for this role, which it is given by the process that plays
// it (recovery/member/joiner.h), and takes it when it is started there. It says JoinerReady.
// `is_off`: it is a standby like any other again.
struct JoinerWanted {
  Node node;
  Rank rank;
  View view;           // that is open
  View next;           // opens next: of later ones nobody knows whether what it has is still so
  PeerAddress leaver;  // the process that plays it
  bool is_off = false;
};
// To whoever has said MoveWanted, at once.
struct MoveAnswer {
  bool accepted = false;
  std::string reason;  // what will happen, or why it will not
};
// To the run: whether its term is still the newest (losses/term_confirmation.h). Answered by
// TermHeld once it has seen that it is.
struct ConfirmTerm {
  int64_t losses = 0;  // that this controller knew of when it asked
};
// Whether machines reach each other; answered by NodeChecked for those that are not fit, and
// NetworkChecked.
struct CheckNetwork {};
struct DrainJob {  // all workers finish their step, save and end
  std::string why;
};
struct JobEvent {  // a line of the story, for people
  std::string text;
};
// Other roles train than before, from the state at `step` on; Step(-1): from where all go on.
struct LanesChanged {
  Step step;
  std::vector<int> lanes;  // that train, of each stage
  int32_t nodes = 0;       // that play roles
  std::string cause;
  // Of members that a controller has found: from where all had gone on. What is known of it and of
  // later states holds if it agrees.
  bool is_base = false;
};
// Messages from one node to another take longer than usual (docs/stragglers.md), or did until now.
struct SlowLinkFound {
  Node from, to;
  double factor = 1;  // how many times as long as usual
  Step step;          // the newest one by then
  bool is_over = false;
};
// A role computes slower than others (docs/stragglers.md), or did until now.
struct StragglerFound {
  Rank rank;
  Node node;          // that plays it
  double factor = 1;  // how many times as long as others
  Step step;          // the newest one that was compared
  bool is_over = false;
};
using ControllerAction =
    std::variant<StartWorker, KillWorker, SendOrder, OpenView, EndJob, DismissNode, DrainJob,
                 CheckNetwork, JobEvent, LanesChanged, KeepStandbys, JoinerWanted, MoveAnswer,
                 StragglerFound, SlowLinkFound, ConfirmTerm>;

// Jobs that train on with fewer machines, and with those that come (docs/elastic.md).
struct ElasticOptions {
  bool is_enabled = false;
  int nodes_min = 1;  // with fewer the job saves and ends
  // How long nodes that have come wait for others before they are used.
  absl::Duration grow_wait = absl::ZeroDuration();
  std::vector<int> widths;  // parallel/membership.h, width_of()
  // Who rests when, whatever happens: to repeat what a job has done. Not with is_enabled.
  MembershipHistory script;
};

// Roles that compute slower than others, and links that are slower than usual
// (stragglers/straggler_watch.h, slow_link_watch.h).
struct StragglerOptions {
  double slower_than = 1.15;
  int for_steps = 20;
  double link_slower_than = 3;
  bool moves = false;                        // else they are only told of, as links are
  absl::Duration look = absl::Seconds(0.5);  // between two looks at what roles say
};

// What a move of roles is expected to take while none was measured.
struct ExpectedMove {
  absl::Duration preparation = absl::Seconds(10);
  absl::Duration pause = absl::Seconds(1);  // for which the job stands; at least half a step
};

struct ControllerOptions {
  int nodes = 1;     // that play roles from the start
  int spares = 0;    // nodes nodes .. nodes + spares - 1, which take over what a lost node played
  int standbys = 0;  // warm processes without a role, on all nodes together
  int copies = 1;
  // A rank and the holders of its copies are in different domains of this level, where there are
  // enough of them; else of the next smaller one. nullopt: any other process will do.
  std::optional<DomainLevel> copy_level = DomainLevel::kNode;
  int racks = 0;  // nodes are dealt to racks in order; 0: every node is its own
  Strategy strategy;
  bool restart_all_allowed = true;  // false: refuse instead of going back to the durable checkpoint
  // Another controller has run this job before: members may live.
  bool takes_over = false;
  // Another host may take the job, and nodes may go to it, before this one knows.
  bool hosts_may_change = false;
  // How long a lost role waits for its run to say that none has.
  absl::Duration host_answer_max = absl::Seconds(5);
  // All views that it opens are newer: of members that it never hears of, former controllers may
  // have opened some, and no two plans may have one number.
  View views_after;
  int64_t incidents_after = 0;  // and the numbers of all its incidents larger
  // If it takes over it waits so long for members to find it before it takes them for lost; and
  // while the view that the others are in goes on, which it cannot without them, as far as is known
  // for so long after a commit (beginning/job_beginning.h).
  absl::Duration adoption = absl::Seconds(2);
  absl::Duration goes_on_max = absl::Seconds(10);
  // The same while more than one node is missing, if that is longer: after a change of the host,
  // whose machine may be the one, agents that are still calling the former host give up after this.
  absl::Duration find_max = absl::ZeroDuration();
  // How long a job waits at its beginning for as many machines as it needs, if that is longer than
  // `adoption`; then it begins on those that are there.
  absl::Duration begin_max = absl::ZeroDuration();
  // And how long, if that is longer, for those that come before spares, before a spare is as good.
  absl::Duration spares_wait = absl::ZeroDuration();
  // How long it waits, when as many have come, for enough that are fit, because some are not.
  absl::Duration fit_max = absl::Seconds(30);
  // How long it waits, when enough machines are there and before roles are given, for the answer to
  // CheckNetwork; 0: it does not ask. One that takes over does not, either.
  absl::Duration network_max = absl::ZeroDuration();
  // From an accusation until the accused is taken for lost though nobody saw it die.
  absl::Duration grace = absl::Milliseconds(500);
  // The same, if that is longer, while the node of the accused is heard: which of the two ends is
  // at fault shows when others complain, too (losses/node_troubles.h).
  absl::Duration others_wait = absl::ZeroDuration();
  absl::Duration start_max = absl::Minutes(2);    // from StartWorker until it joins
  absl::Duration report_max = absl::Seconds(10);  // from a StopOrder until the report
  // For which roles that move give away copies of their windows before they stop: what is not there
  // by then they do without for a while.
  absl::Duration copying_max = absl::Seconds(10);
  // How long before the state at which they are to stop they are told so, at least: one that hears
  // of it when it has begun the next step waits there for those that have stopped, and they for it.
  absl::Duration leave_ahead = absl::ZeroDuration();
  // Between two signs of life, while its agent is heard: when it is not, nothing is known of its
  // workers. No role is started on a node whose agent has been silent for half of it: the verdict
  // on the node comes first.
  //
  // This limit and those of starts, reports, steps and probes grow with what is measured: time in
  // which a worker was ready and got no processor does not count (stalls/starvation.h), and where
  // timers are late signs of life may be, too (stalls/lateness.h); up to kStallFactorMax times.
  absl::Duration silence_max = absl::Seconds(5);
  absl::Duration own_standstill = absl::Seconds(2);  // stall_adjusted_clock.h
  // A job of which nothing is heard for so long, or for so many median steps if that is longer,
  // stands still though all its workers live. The next view shows who does not move.
  absl::Duration step_max = absl::Minutes(1);
  double medians_max = 20;
  absl::Duration load_max = absl::Minutes(10);  // the same while somebody still gathers its state
  // From that view until those are replaced; a median step if that is longer.
  absl::Duration probe_min = absl::Seconds(5);
  ElasticOptions elastic;
  absl::Duration relief_look = absl::Seconds(0.5);  // between two looks for crowded nodes
  StragglerOptions stragglers;
  ExpectedMove expected_move;
  int losses_max = 50;  // in a row without progress; a node with all its workers is one
  // Without protection every failure starts the whole job again from its newest durable checkpoint.
  // So many restarts in a row without progress (a step that was never committed before, or a newer
  // checkpoint) are allowed; before the n-th one the job waits backoff * 2^(n-1), at most
  // backoff_max.
  // With protection so many of one role are.
  int restarts_max = 50;
  absl::Duration backoff = absl::ZeroDuration();
  absl::Duration backoff_max = absl::Seconds(30);
  // A role that ends sooner than so after it was replaced, or before the job has made any progress,
  // may be in the wrong place (role_restarts.h). It waits, too: backoff * 2^(n-2) after its n-th
  // such end.
  absl::Duration settles_after = absl::Seconds(10);
  // What is not a step (the first one, an evaluation, a checkpoint, the end) may take `patience`
  // times as long as a step before the job counts as standing still.
  int patience = 1;
  Step steps{std::numeric_limits<int64_t>::max()};  // of the whole job
  int64_t evaluate_every_steps = 0;                 // 0: only at the end
  int64_t checkpoint_every_steps = 0;
};

}  // namespace evermoe
