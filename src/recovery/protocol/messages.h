// What members of a job and its controller say to each other. Plain values; cluster/ puts them on
// the wire. Every message of a member carries the view that it speaks of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "comm/transport/transport.h"
#include "parallel/membership.h"
#include "protection/logs/commit.h"
#include "protection/snapshots/snapshot_store.h"

namespace evermoe {

// ---- from the controller

// Every recovery is an incident with a number of its own, the same in the logs of all processes: no
// two controllers of a job give out the same one. The n-th of the controller with a life (how many
// controllers the job had before it) is life * kIncidentsOfController + n.
inline constexpr int64_t kIncidentsOfController = 10'000;

// View `view` is about to open: commit nothing in an older one, and report.
struct StopOrder {
  View view;
  int64_t incident = 0;  // that is under way; 0: none
  // The state that roles which move have given away: the verdict that leads to it is on its way,
  // and waited for, for a moment, before the order is followed. -1: nothing is waited for.
  Step handed_over{-1};
};

// View `view` is open.
struct Plan {
  View view;
  std::vector<PeerAddress> table;  // by rank
  // The whole job goes back to its newest durable state; everything below is empty.
  bool restart_all = false;
  Commit newest{-1};   // newest commit that any live rank has
  Rank record_source;  // a rank that has every record up to it
  Step state{-1};      // in force at that commit
  Step base{-1};       // the state that the job resumed from
  // Stages that roll back do so to this window; where gradients are kept, ranks of them whose state
  // is gone take it. -1: `base`.
  Step window{-1};
  std::vector<int> rolled_back;  // stages that begin anew
  // They do so at `state`: who lives keeps its own, who is new takes it whole from its sources, and
  // nobody goes back.
  bool renews = false;
  // Processes that are new and play roles that rest: they begin at `state`, and nobody goes back.
  std::vector<Rank> rejoining;
  // By stage: the view in which its ranks begin, or have begun, together.
  std::vector<View> stage_epochs;
  // Who rests when, as far back as anybody may go, and what is to come.
  MembershipHistory membership;
  // By rank, for those that roll back and do not hold their own window: who has it, best first.
  std::vector<std::vector<Rank>> sources;
  std::vector<std::vector<Rank>> holders;  // by rank: who keeps its copies from now on
  std::vector<std::string> reasons;        // for people
  int64_t incident = 0;                    // as in StopOrder
};

// Everybody has finished: nobody needs this member's logs and copies any more.
struct ReleaseOrder {};

// Another process will play this role, on a node that the controller has chosen: the joiner, which
// is there already (seated_transport.h). Introduce it to those with whom this rank is connected.
// Beside the training, give it what this rank keeps of its own snapshots and of others', and say
// CopiesGiven. Once `stop_at` is there: give it the first state from there on whole (where
// gradients are kept, the first of a window), say HandedOver, and stay there. The order ends with
// its view, or when it is called off; a newer one takes its place.
struct LeaveOrder {
  View view;  // that is open
  PeerAddress joiner;
  Step stop_at{-1};  // -1: not said yet
  bool is_off = false;
};

using ControllerMessage = std::variant<StopOrder, Plan, ReleaseOrder, LeaveOrder>;

// ---- from a member

// The answer to a StopOrder. From here on the member accepts no commit of an older view.
struct Report {
  View view;
  Rank rank;
  View stage_epoch;  // the view in which it last joined its stage group; 0: never, it is fresh
  bool is_broken = false;  // it had to leave the step under way and waits to be rolled back
  bool has_state = false;  // its trainer's is whole and at a step's end, also if it is broken
  Step held_state{-1};     // has_state: which one that is, or was when it came to it
  // Its log has the messages that its role sent after this state; those before went with another
  // process.
  Step logged_since{-1};
  // It runs steps again up to this state, and needs what its neighbours sent in them; -1: none.
  Step catches_up_to{-1};
  // It has no state, and takes this one whole from others, by a plan that renews; -1: none.
  Step awaits_state{-1};
  Commit newest{-1};
  Step state{-1};            // in force at that commit
  Step base{-1};             // -1 with a stage_epoch: it has not come to the end of resuming
  Step complete_window{-1};  // of the newest record
  std::vector<HeldWindow> held;
  std::vector<WholeState> whole_states;  // likewise held
  View plan_view;                        // of the newest plan that it has had; 0: none
  MembershipHistory membership;          // of that plan
  Step experts_moved{-1};                // StageTrainer::experts_moved() of that state
};

// Something failed that a new view has to repair.
struct Trouble {
  View view;         // in force when it failed
  View stage_epoch;  // of the stage group; relevant if inside_stage
  Rank rank;
  bool inside_stage = false;
  std::optional<Rank> accused;
  // No source had a usable copy of this rank's window, or its durable state is damaged or gone.
  bool copies_unusable = false;
  std::string what;
  friend bool operator==(const Trouble&, const Trouble&) = default;
};

// The progress of a recovery, for its timeline.
struct Milestone {
  enum class Kind : uint8_t {
    kOpened,
    kRestored,
    kCaughtUp,
    kVerified,
    kStepAgain,
    kCopying,  // parts of snapshots have come or gone, or an update was made from them: movement
  };
  View view;
  Rank rank;
  Kind kind = Kind::kOpened;
  int64_t recomputed_steps = 0;      // kStepAgain, kCaughtUp: steps that this rank ran again
  std::vector<std::string> sources;  // kRestored: "window 12, slots 0-3 from rank 4"
  Step step{-1};                     // kRestored: the step of that state
};

struct Progress {
  View view;
  Rank rank;
  Commit newest;
  Step complete_window{-1};
  int64_t log_bytes = 0;
  int64_t snapshot_bytes = 0;
};

struct Finished {
  Rank rank;
  Step step;
};

// A role that was played on `node` had made numbers that are not finite, and this process has
// computed the same step again from the same state and samples (train/step/examination.h).
struct Examined {
  Rank rank;
  Step step;
  int32_t node = 0;
  bool is_reproduced = false;  // false: the machine of that node was at fault
  std::string what;            // for people
};

// The joiner has what this rank kept of snapshots when it was told to leave (LeaveOrder).
struct CopiesGiven {
  View view;
  Rank rank;
};

// The joiner has this rank's whole state, and this process does nothing more (LeaveOrder).
struct HandedOver {
  View view;
  Rank rank;
  Step state;
  int64_t bytes = 0;  // of that state
};

// This process does not hand its role over as it was told (LeaveOrder).
struct CannotLeave {
  enum class Why : uint8_t {
    kTooLate,   // it had gone on from `stop_at` when it heard of that: it stops later
    kNotTaken,  // what it gives does not come to the joiner
  };
  View view;
  Rank rank;
  Why why = Why::kTooLate;
};

// With the first commit in a view, after a loss or a move: what this process has made since its
// last commit before.
struct Connected {
  View view;
  Rank rank;
  int64_t connections = 0;  // Transport::connections_opened(); nobody says 0
};

using MemberMessage = std::variant<Report, Trouble, Milestone, Progress, Finished, Examined,
                                   CopiesGiven, HandedOver, CannotLeave, Connected>;

// The member's way to the controller. Any thread; never blocks.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  virtual void send(MemberMessage message) = 0;
};

}  // namespace evermoe
