// What a run will do under given failures, predicted from a runtime profile of its job: the
// simulation that forecasts use, with what was measured instead of data sheets.
//
// Places are the job's ranks. A loss of workers takes ranks, one of nodes all ranks that begin
// there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "planner/measured/runtime_profile.h"
#include "planner/simulate/run_simulation.h"

namespace evermoe {

struct PlayedLoss {
  double steps = 0;          // after the first undisturbed step would begin, in such steps
  std::vector<int> victims;  // at one moment: ranks whose workers are lost, or nodes
};

struct PredictedRun {
  double ettr = 0;
  double seconds = 0;           // from the first step's begin to the last one's end
  double lost_token_share = 0;  // LOSSY
  SimulatedRun run;
};

// How the job is protected, in what was measured. REQUIRES: the profile has the job's strategy, and
// losses of the kind.
RunStrategy measured_strategy(const RuntimeProfile& profile, const JobConfig& job, LostKind lost);
// Who keeps whose copies is decided as the controller decides it.
TrainedJob measured_job(const RuntimeProfile& profile, const JobConfig& job);
// The ranks that begin on these nodes, ascending.
std::vector<int> ranks_on(const JobConfig& job, std::span<const int> nodes);

// InvalidInput if the profile is of another job, or lacks its strategy or what a loss of one of
// these kinds costs.
absl::Status check_profile(const RuntimeProfile& profile, const JobConfig& job,
                           std::span<const LostKind> lost);

// The job's run of train.steps steps. ETTR as experiments measure it: steps x undisturbed seconds
// of one over the run's seconds less begin and end of the undisturbed run; times of losses too are
// counted from there. InvalidInput as check_profile() says; without losses no kind is needed.
absl::StatusOr<PredictedRun> predict_run(const RuntimeProfile& profile, const JobConfig& job,
                                         LostKind lost, std::span<const PlayedLoss> losses);

}  // namespace evermoe
