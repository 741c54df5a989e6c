// Which worker is the first cause when several have failed.
//
// One death takes the others with it: their transports report a lost peer, they say so and exit. The
// order of evidence is therefore not the order of arrival but:
//   1. a worker that says the user's input is wrong: no restart can help
//   2. a worker that could not be started
//   3. a worker killed by a signal
//   4. a worker whose reports cannot be read
//   5. a worker that gave no sign of life for too long
//   6. a worker that failed by itself, accusing nobody
//   7. whom the failed workers accuse, following the accusations to their end
// 1 to 5 are certain at once. 6 and 7 are certain only after a short grace, in which something
// from above may still come to light.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "cluster/worker_report.h"
#include "env/process.h"

namespace evermoe {

// What is known of one started worker.
struct WorkerState {
  absl::Duration started = absl::ZeroDuration();
  absl::Duration heard = absl::ZeroDuration();  // its newest report, `started` before the first
  bool has_spoken = false;
  bool ready = false;
  bool finished = false;
  bool drained = false;
  std::optional<WorkerReport> failed;  // its kFailed
  std::optional<ExitStatus> exit;
  std::string last_words;   // the last line of its log, once it has ended
  std::string not_started;  // why, or empty
  std::string unreadable;   // why its reports cannot be read, or empty

  bool running() const { return !exit && not_started.empty(); }
};

struct BlameOptions {
  std::vector<std::string> role_names;  // by rank: "1.0"
  // Silence after which a worker that has spoken before counts as stopped. Its report thread speaks
  // every half second; too short accuses workers of a loaded machine.
  absl::Duration alive_timeout = absl::Seconds(5);
  // The same before its first report: loading libraries from a cold disk.
  absl::Duration start_timeout = absl::Minutes(2);
  // Silence that makes an accusation by another worker credible: three missed reports.
  absl::Duration suspicious_silence = absl::Milliseconds(1500);
};

struct Cause {
  std::vector<Rank> ranks;
  std::string kind;             // as in FailureRecord
  std::optional<Rank> accused;  // by the failed workers' own reports
  bool bad_input = false;       // `kind` is then the line for the user
  bool certain = false;
};

// nullopt if nothing is wrong. `workers` by rank.
std::optional<Cause> find_cause(absl::Duration now, const std::vector<WorkerState>& workers,
                                const BlameOptions& options);

// When the next worker becomes silent for too long; infinite if none can.
absl::Duration next_silence(const std::vector<WorkerState>& workers, const BlameOptions& options);

}  // namespace evermoe
