// What a job costs as the runtime really runs it: measured by `evermoe profile --job`, read by
// predictions (measured_run.h). Nothing in it is assumed or fitted.
//
// As TOML, format version 3 (docs/planning.md):
//
//   version = 3
//   [job]
//   fingerprint = "..."    # of its configuration, without what a profile covers or what changes no
//                          # step: job_fingerprint()
//   build = "..."          # of evermoe
//   stages = 2
//   ranks = 4
//   nodes = 1
//   step_seconds = 0.12    # without protection, saves and failures
//   begin_seconds = 2.1
//   end_seconds = 0.4
//   [[strategy]]           # at least one; `none` among them
//   name = "sparse"
//   step_seconds = 0.125
//   ...
//   [strategy.worker]      # of the loss of a worker
//   detect_seconds = 0.01
//   ...
//   [strategy.node]        # of a node, where that was measured
//   [strategy.standby]     # of a worker whose role a warm standby took, likewise
//   [strategy.move]        # of the roles of a node that was announced to go, likewise
//   hand_over_seconds = 0.1
//   ...
//   [recovery]             # for forecasts, in a cluster's words: where both of the last two were
//   detect_seconds = 0.01  # measured
//   ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "env/files.h"
#include "protection/strategy/strategy.h"

namespace evermoe {

inline constexpr int kRuntimeProfileVersion = 3;
inline constexpr int64_t kRuntimeProfileBytesMax = 1 << 20;

enum class LostKind : uint8_t { kWorker, kNode, kStandby };  // kStandby: a worker that had one
inline constexpr LostKind kLostKinds[] = {LostKind::kWorker, LostKind::kNode, LostKind::kStandby};
const char* to_string(LostKind lost);

// What a loss costs. Means over the measured ones; seconds unless their name says otherwise.
struct LossProfile {
  double detect_seconds = 0;      // until the controller knew
  double view_seconds = 0;        // until new processes were there, and the view planned
  double load_seconds = 0;        // until the last rank had gathered its state
  double step_again_seconds = 0;  // of one step that is run again; 0: none was
  double settle_seconds = 0;      // what the steps afterwards took longer than they usually do
  double steps_again = 0;         // that were run again, the most of any rank
  int64_t failures = 0;           // so many were measured; 0: nothing is known
  friend bool operator==(const LossProfile&, const LossProfile&) = default;
};

// What it costs to move the roles of one node to another while the job trains. Means over the
// measured moves; the seconds follow each other, and their sum is the pause.
struct MoveProfile {
  double hand_over_seconds = 0;  // from the last commit until all had handed their states over
  double switch_seconds = 0;     // until the new view was planned
  double load_seconds = 0;       // until the new processes had the states
  double settle_seconds = 0;     // by which the next commit came later than a usual step's
  double bytes = 0;              // of the states that moved
  int64_t moves = 0;             // so many were measured; 0: nothing is known
  double pause_seconds() const {
    return hand_over_seconds + switch_seconds + load_seconds + settle_seconds;
  }
  friend bool operator==(const MoveProfile&, const MoveProfile&) = default;
};

// What of a recovery does not depend on how large the state is, as [recovery] of a cluster has it
// (planner/cluster_model/cluster_spec.h).
struct MeasuredRecovery {
  double detect_seconds = 0;
  double restart_seconds = 0;
  double standby_seconds = 0;
  double migrate_seconds = 0;
  friend bool operator==(const MeasuredRecovery&, const MeasuredRecovery&) = default;
};

// Means over the measured runs.
struct StrategyProfile {
  StrategyKind kind = StrategyKind::kNone;
  double step_seconds = 0;    // of steps that no save and no failure lengthens
  double begin_seconds = 0;   // from the start of the job until its first step begins
  double end_seconds = 0;     // from its last step until it has ended
  double window_steps = 0;    // sparse: as long as its windows were in the end; others: 0
  double save_seconds = 0;    // by which a durable save lengthens the steps after it
  double save_lag_steps = 0;  // from a durable save until a failure can go back to it
  LossProfile worker;
  LossProfile node;  // of a node with all its workers; measured where the job has several nodes
  // Of those that keep copies in peers' memory, where it was asked for:
  LossProfile standby;  // of a worker, whose role a standby takes that was warm
  MoveProfile move;     // where the job has several nodes
  const LossProfile& of(LostKind lost) const {
    return lost == LostKind::kNode ? node : lost == LostKind::kStandby ? standby : worker;
  }
  friend bool operator==(const StrategyProfile&, const StrategyProfile&) = default;
};

struct RuntimeProfile {
  std::string fingerprint;
  std::string build;  // of the programs that were measured: base/build_fingerprint.h
  int64_t stages = 1;
  int64_t ranks = 1;
  int64_t nodes = 1;
  double step_seconds = 0;
  double begin_seconds = 0;
  double end_seconds = 0;
  std::vector<StrategyProfile> strategies;  // each once
  std::optional<MeasuredRecovery> recovery;

  // nullptr: it was not measured.
  const StrategyProfile* find(StrategyKind kind) const;
  friend bool operator==(const RuntimeProfile&, const RuntimeProfile&) = default;
};

// 32 hexadecimal digits, equal for jobs whose steps and recoveries cost the same: the length of the
// run, its strategy, its saves and evaluations are left out, and so is where its files are.
std::string job_fingerprint(JobConfig config);

// InvalidInput with one line "origin:line: key: found ..., allowed: ...".
absl::StatusOr<RuntimeProfile> parse_runtime_profile(const std::string& text,
                                                     const std::string& origin);
// The same for a file; one that cannot be read is InvalidInput too.
absl::StatusOr<RuntimeProfile> load_runtime_profile(Files& files, const std::string& path);
// Parses back to an equal one. Every key has its meaning beside it.
std::string to_toml(const RuntimeProfile& profile);

}  // namespace evermoe
