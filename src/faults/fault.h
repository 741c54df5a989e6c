// One fault: what is injected, and when.
//
// A fault is injected at most once in the life of a job, although the worker it hit is replaced by
// a process that passes the same point again. Whoever injects it records fault.index, durably and
// before the blow, and hands all recorded indices to every new trigger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace evermoe {

enum class FaultKind {
  kKillWorker,
  kKillNode,       // every worker of the node
  kStopWorker,     // it stays alive and does nothing more
  kCutConnection,  // between two workers, which stay alive
  kCorruptCopy,    // the copies of a role's snapshots that its peers hold
  kCorruptState,   // a bit of the worker's own weights, as a broken machine changes it
  kKillController,
  kCorruptResult,  // what the worker computes next is not finite, as a broken machine makes it
  kLoseNode,       // every process of the node, for good
  kReturnNode,     // one that was lost comes back, with nothing
  kAddNode,        // one comes that never was there
  kPoisonSamples,  // whatever of these tokens is trained has a loss that is not finite
  kNoticeNode,     // its machine will be taken away: it is drained, and lost `seconds` later
  kKillLeaver,     // the worker, while it hands its role over for a planned move
  kKillJoiner,     // the process that takes the role in a planned move
  kSlowWorker,     // what it computes takes `factor` times as long from then on
};

// "kill_worker", "kill_node", ...
const char* to_string(FaultKind kind);
inline constexpr FaultKind kFaultKinds[] = {
    FaultKind::kKillWorker,     FaultKind::kKillNode,      FaultKind::kStopWorker,
    FaultKind::kCutConnection,  FaultKind::kCorruptCopy,   FaultKind::kCorruptState,
    FaultKind::kKillController, FaultKind::kCorruptResult, FaultKind::kPoisonSamples,
    FaultKind::kLoseNode,       FaultKind::kReturnNode,    FaultKind::kAddNode,
    FaultKind::kNoticeNode,     FaultKind::kKillLeaver,    FaultKind::kKillJoiner,
    FaultKind::kSlowWorker};
// What becomes of whole nodes: the run does that, when it hears that a step is done.
inline bool is_of_run(FaultKind kind) {
  return kind == FaultKind::kLoseNode || kind == FaultKind::kReturnNode ||
         kind == FaultKind::kAddNode || kind == FaultKind::kNoticeNode;
}
// What only the worker itself can see to, by time, too.
inline bool is_of_worker_itself(FaultKind kind) {
  return kind == FaultKind::kCutConnection || kind == FaultKind::kCorruptCopy ||
         kind == FaultKind::kSlowWorker;
}
// What happens in a planned move, whichever step that is in.
inline bool is_of_move(FaultKind kind) {
  return kind == FaultKind::kKillLeaver || kind == FaultKind::kKillJoiner;
}

// Who a worker is, as fault scripts say it: parallel/topology.h's Role, which is not below this.
struct FaultRole {
  int stage = 0;
  int lane = 0;
  friend auto operator<=>(const FaultRole&, const FaultRole&) = default;
};

// A worker passing a point, where the fault is not one by time.
struct FaultMoment {
  std::string point;  // a known one
  // That is under way, Step(1) being the first; empty: any. At points that are passed beside the
  // step (faults/fault_points.h), any from this one on.
  std::optional<Step> step;
  std::optional<int> recovery;  // of the job, counted from 1, that is under way; empty: any or none
  int64_t reached = 0;          // earlier passings of the point that meet the conditions above
  friend bool operator==(const FaultMoment&, const FaultMoment&) = default;
};

struct Fault {
  int index = 0;  // place in the script, from 0
  FaultKind kind = FaultKind::kKillWorker;
  // Whom it hits, and whose passing of the point counts. kKillController: only the latter.
  // kKillNode: (0, 0), since any worker of the node counts.
  FaultRole role;
  FaultRole other;     // kCutConnection: the other end
  int node = 0;        // kKillNode, and those of the run
  double seconds = 0;  // kNoticeNode: from the notice until the machine is gone
  double factor = 1;   // kSlowWorker
  // kPoisonSamples, which has neither role nor time, and is there in every process: a range of
  // tokens of the training part.
  int64_t tokens_begin = 0, tokens_end = 0;
  // One of the three.
  std::optional<double> after_seconds;  // since the job began
  std::optional<FaultMoment> moment;
  std::optional<Step> after_step;  // those of the run: when this one is done
  friend bool operator==(const Fault&, const Fault&) = default;
};

// One line for people: "kill_worker stage 1 lane 0 at step/forward of step 5".
std::string to_string(const Fault& fault);

struct FaultScript {
  std::vector<Fault> faults;  // by index
  friend bool operator==(const FaultScript&, const FaultScript&) = default;
};

}  // namespace evermoe
