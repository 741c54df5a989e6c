// What a job costs as the runtime really runs it: measured by `evermoe profile --job`, read by
// predictions (measured_run.h). Nothing in it is assumed or fitted.
//
// As TOML, format version 2 (docs/planning.md):
//
//   version = 2
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
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "env/files.h"
#include "protection/strategy/strategy.h"

namespace evermoe {

inline constexpr int kRuntimeProfileVersion = 2;
inline constexpr int64_t kRuntimeProfileBytesMax = 1 << 20;

enum class LostKind : uint8_t { kWorker, kNode };
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
  const LossProfile& of(LostKind lost) const { return lost == LostKind::kNode ? node : worker; }
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
