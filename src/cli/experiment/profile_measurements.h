// What a measuring run says about the cost of its strategy (planner/measured/runtime_profile.h).
//
// Pure. A run's own record is taken at its word: metrics.jsonl for the seconds of steps, the
// summary's timelines for recoveries, and what was seen of it from outside for begin, end and
// durable saves.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/experiment/job_process.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

struct MeasuredFailure {
  double detect = 0, view = 0, load = 0;  // the phases' seconds, each beside the others
  double again = 0;                       // running steps again
  int64_t steps_again = 0;
  double settle = 0;
};

struct MeasuredMove {
  double hand_over = 0, change = 0, load = 0,
         settle = 0;  // the phases' seconds, one after the other
  double bytes = 0;
};

struct MeasuredRun {
  LostKind lost = LostKind::kWorker;  // what its failures took
  double step_seconds = 0;            // mean of the steps that no save and no failure lengthens
  double begin_seconds = 0;
  double end_seconds = 0;
  double window_steps = 0;
  std::vector<double> save_seconds;       // of each save, what the two steps after it took longer
  std::vector<double> save_lag_steps;     // likewise
  std::vector<MeasuredFailure> failures;  // of kStandby: those that one was warm for
  std::vector<MeasuredMove> moves;        // that came to an end
};

// So many steps after a recovery, the one that it ends with included, count as its own.
inline constexpr int64_t kSettlingSteps = 3;

// FailedPrecondition with one line if the run did not finish or its record has no undisturbed
// steps.
absl::StatusOr<MeasuredRun> measured_run(const JobEnd& end, LostKind lost);

// Means of the runs of one strategy. Of `prepared` runs, where a standby was warm or a node was
// announced to go, only what losses and moves cost: their steps have warming up beside them.
// REQUIRES: at least one run.
StrategyProfile strategy_profile(StrategyKind kind, std::span<const MeasuredRun> runs,
                                 std::span<const MeasuredRun> prepared = {});

}  // namespace evermoe
