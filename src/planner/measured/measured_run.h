// What a run will do under given failures, predicted from a runtime profile of its job: the
// simulation that forecasts use, with what was measured instead of data sheets.
//
// Places are the job's nodes or, where all of its ranks are on one node, its ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "planner/measured/runtime_profile.h"
#include "planner/simulate/run_simulation.h"

namespace evermoe {

// Workers that are lost at one moment.
struct PlayedLoss {
  double steps = 0;         // after the first undisturbed step would begin, in such steps
  std::vector<int> places;  // ascending
};

struct PredictedRun {
  double ettr = 0;
  double seconds = 0;           // from the first step's begin to the last one's end
  double lost_token_share = 0;  // LOSSY
  SimulatedRun run;
};

int places_of(const JobConfig& job);
// Blocks of neighbouring ranks, as the controller starts them.
int place_of_rank(const JobConfig& job, int rank);

// How the job is protected, in what was measured. REQUIRES: the profile has the job's strategy.
RunStrategy measured_strategy(const RuntimeProfile& profile, const JobConfig& job);
// Who keeps whose copies is decided as the controller decides it.
TrainedJob measured_job(const RuntimeProfile& profile, const JobConfig& job);

// The job's run of train.steps steps. ETTR as experiments measure it: steps x undisturbed seconds
// of one over the run's seconds less begin and end of the undisturbed run; times of losses too are
// counted from there. InvalidInput if the profile is of another job or lacks its strategy.
absl::StatusOr<PredictedRun> predict_run(const RuntimeProfile& profile, const JobConfig& job,
                                         std::span<const PlayedLoss> losses);

}  // namespace evermoe
