// What goes wrong in a simulated job, and when.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

struct SimulatedFault {
  enum class Kind {
    kKillWorker,
    kStopWorker,
    kCut,
    kCorruptCopies,
    kPause,
    kHang,        // the thread that passes the point stands still there, for kPauseTime or for ever
    kDoomRole,    // from now on every process of the role dies on `node`, kDoomTime after its start
    kSlowWorker,  // it computes `factor` times as long from now on
    kMoveRoles,   // no fault: an operator has a `wish`
    kDrainJob,    // no fault: an operator wants all to save and end
    kKillStandby,  // one that waits on `node`
    kKillNode,     // its agent dies, and with it the node's workers; if it `lasts` so long, a new
                   // agent comes
    kStopAgent,    // for `lasts`, but not its workers
    kStopNode,     // for `lasts`: its agent and its workers
    kSuspendNode,  // likewise, and its monotonic clock stands still meanwhile
    kUnfitNode,    // its machine is not fit to play a role for `lasts`; only where it plays none
    kLeaveNode,    // its machine is taken away after `lasts`, or never if that is 0: it asks to go
    kKillController,
    kStopController,  // for `lasts`
    kChangeHost,      // another host takes the job over; the former one learns of it `lasts` later.
                      // With a store: that forgets who is elected
    kFillDisk,        // nothing can be saved for `lasts` by `rank`, or by nobody if it is negative;
                      // then no host can take a term, either
    // The line between a node and the controller, or those of all nodes if `node` is negative. With
    // a store the controller may be on any node: the lines to all other nodes.
    kCutLine,    // both directions, for `lasts`
    kMuteNode,   // nothing comes from the node, for `lasts`
    kDeafNode,   // nothing comes to the node, for `lasts`
    kSlowLine,   // for `lasts`
    kBreakLine,  // both ends live; the controller notices `lasts` later, or the agent if
                 // `agent_is_late`
    // Of a job with a store; of all nodes if `node` is negative.
    kCutStore,   // the node cannot reach the store, for `lasts`; what it has sent arrives later
    kMuteStore,  // no answer comes from the store, for `lasts`; what is asked is done
    kStopStore,  // it is away for `lasts`: nothing is done
    // Agents, not their workers, for `lasts`.
    kCutNodes,     // `node` and `peer` from each other
    kIsolateNode,  // from all others, but not from a controller on a machine apart
    // Workers, for `lasts`; their agents only where it says so.
    kCutWorkers,   // those of `node` and `peer` from each other
    kMuteWorkers,  // nothing comes from those of `node` to those of `peer`
    kUnplugNode,   // those of `node` from all others; its agent, too, if it is `with_agent`
    kSlowLink  // what those of `node` send to those of `peer` takes kSlowLinkMore longer, for ever
  };
  Kind kind = Kind::kKillWorker;
  Rank rank;         // kKillWorker, kStopWorker, kCut, kCorruptCopies (whose copies), kDoomRole,
                     // kSlowWorker, kFillDisk
  Rank other;        // kCut
  Rank only_at{-1};  // kCorruptCopies: the holder that is hit; negative: all
  // kDoomRole, and from kKillStandby on; of a job with a store negative from kKillNode
  // to kLeaveNode: the one that hosts at that time
  Node node;
  Node peer;  // kCutNodes, kCutWorkers, kMuteWorkers, kSlowLink
  // kMoveRoles. A negative node: the one that plays the role before this one then, the first of all
  // where the last one is; so {1, 2} to {-1, -1} change places.
  MoveWanted wish;
  absl::Duration lasts;
  double factor = 1;           // kSlowWorker
  bool agent_is_late = false;  // kBreakLine
  bool with_agent = false;     // kUnplugNode: from everything, the controller and the store, too
  // When: at a time, or when a process of `at_rank` (any rank if negative) passes `point` for the
  // `passing`-th time in the job.
  absl::Duration time = absl::InfiniteDuration();
  std::string point;
  Rank at_rank{-1};
  int64_t passing = 0;

  static constexpr absl::Duration kPauseTime = absl::Milliseconds(40);
  static constexpr absl::Duration kDoomTime = absl::Milliseconds(25);
  static constexpr absl::Duration kSlowLinkMore = absl::Milliseconds(2);
};

const char* kind_name(SimulatedFault::Kind kind);  // "kill worker", "stop node", ...
std::string to_string(const SimulatedFault& fault);

}  // namespace evermoe
