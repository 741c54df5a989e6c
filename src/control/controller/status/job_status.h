// What a controller tells operators of its job at one moment (`evermoe status`). Plain values.
//
// It is what the present controller knows: one that has just taken over counts from then on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "checkpoint/write/folder_term.h"
#include "control/controller/controller_interface.h"
#include "control/controller/moves/move_record.h"
#include "control/controller/status/survivable_losses.h"
#include "experts/migration/expert_balance.h"

namespace evermoe {

struct NodeStatus {
  enum class State : uint8_t {
    kAbsent,       // has never been met, or has left
    kInUse,        // plays roles
    kSpare,        // plays none
    kLeaving,      // has said that it leaves; plays roles until others do
    kQuarantined,  // some role is not started there, because it keeps ending soon
    kUnfit,        // plays no new role, because of its complaints
    kLost
  };
  Node node;
  std::string host;  // name of its machine; empty: not known
  State state = State::kAbsent;
  absl::Duration silent;                // since its last sign of life
  std::vector<std::string> complaints;  // why it is not fit to play a role
  // StandbysKept::warm_for, of the warm processes that wait there for a role.
  std::vector<std::vector<Rank>> warm_standbys = {};
};
const char* to_string(NodeStatus::State state);  // "in use", "spare", ...

struct RoleStatus {
  enum class Phase : uint8_t { kMissing, kStarting, kRunning, kFinished, kResting };
  Rank rank;
  std::string name;  // "1.0"
  Node node;         // where its newest process runs or ran
  pid_t pid = 0;     // 0: none
  Phase phase = Phase::kMissing;
  double slow_by = 1;  // a straggler computes so many times as long as others; 1: it is none
};
const char* to_string(RoleStatus::Phase phase);

struct SlowLink {
  Node from, to;
  double factor = 1;  // what travels there takes so many times as long as usual
};

struct JobStatus {
  int64_t life = 0;  // how many controllers the job had before this one
  FolderTerm term;
  View view;
  bool is_open = false;  // else the members stop, or report, for the next plan
  bool is_draining = false;
  Step step{-1};  // the newest committed one; -1: none yet
  Step steps;     // of the whole job
  Step window{
      -1};  // the newest window that is complete on every rank; -1: none since the job resumed
  Step durable{-1};      // the newest checkpoint on disk; -1: none that this controller saw
  int64_t failures = 0;  // recoveries, the one under way included
  absl::Duration median_step;
  absl::Duration elapsed;  // since this controller came
  // Effective training time ratio: the part of `elapsed` that is in the job's state. Steps since
  // the first one that this controller knew of, each for the median time of a step, over `elapsed`;
  // what was lost again does not count. -1: no step yet.
  double ettr = -1;
  SurvivableLosses survives;
  std::optional<ExpertMove> experts;  // their newest move that this controller heard of
  std::optional<MoveRecord> move;     // of roles: the newest, done or not, by this controller
  std::vector<NodeStatus> nodes;
  std::vector<RoleStatus> roles;  // by rank
  std::vector<SlowLink> slow_links;
  int32_t links_known = 0;  // between nodes: of which it is known how long messages usually take
};

}  // namespace evermoe
