// What a job costs as the runtime really runs it: measured by `evermoe profile --job`, read by
// predictions (measured_run.h). Nothing in it is assumed or fitted.
//
// As TOML, format version 1 (docs/planning.md):
//
//   version = 1
//   [job]
//   fingerprint = "..."    # of its configuration, without what a profile covers or what changes no
//   stages = 2             # step: job_fingerprint()
//   ranks = 4
//   nodes = 1
//   step_seconds = 0.12    # without protection, saves and failures
//   begin_seconds = 2.1
//   end_seconds = 0.4
//   [[strategy]]           # at least one; `none` among them
//   name = "sparse"
//   step_seconds = 0.125
//   ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "env/files.h"
#include "protection/strategy/strategy.h"

namespace evermoe {

inline constexpr int kRuntimeProfileVersion = 1;
inline constexpr int64_t kRuntimeProfileBytesMax = 1 << 20;

// Means over the measured runs and failures; seconds unless their name says otherwise.
struct StrategyProfile {
  StrategyKind kind = StrategyKind::kNone;
  double step_seconds = 0;      // of steps that no save and no failure lengthens
  double begin_seconds = 0;     // from the start of the job until its first step begins
  double end_seconds = 0;       // from its last step until it has ended
  double window_steps = 0;      // sparse: as long as its windows were in the end; others: 0
  double save_every_steps = 0;  // of durable saves, as the runtime chose it; 0: as configured
  double save_seconds = 0;      // by which a durable save lengthens the steps after it
  double save_lag_steps = 0;    // from a durable save until a failure can go back to it

  // Of a lost worker.
  double detect_seconds = 0;      // until the controller knew
  double view_seconds = 0;        // until new processes were there, and the view planned
  double load_seconds = 0;        // until the last rank had gathered its state
  double step_again_seconds = 0;  // of one step that is run again; 0: none was
  double settle_seconds = 0;      // what the steps afterwards took longer than they usually do
  double steps_again = 0;         // that were run again, the most of any rank
  int64_t failures = 0;           // so many were measured
  friend bool operator==(const StrategyProfile&, const StrategyProfile&) = default;
};

struct RuntimeProfile {
  std::string fingerprint;
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
