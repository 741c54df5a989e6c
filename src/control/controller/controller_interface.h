// What a controller hears and does, and what it is told at the start (controller_core.h).
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "base/ids.h"
#include "parallel/failure_domains.h"
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
struct EndWanted {  // of a run that may not go on
  std::string why;
};
struct TimePassed {};
using ControllerEvent = std::variant<AgentJoined, AgentLost, AgentAlive, MemberJoined, WorkerEnded,
                                     MemberSaid, MemberAlive, EndWanted, TimePassed>;

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
  // If it takes over it waits so long for members to find it before it takes them for lost; and
  // while the view that the others are in goes on, which it cannot without them (Adoption).
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
