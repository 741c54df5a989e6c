// Measures what a job costs on the runtime: real short runs, real kills, one run at a time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/experiment/job_process.h"
#include "config/job_config.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

struct ProfileRunOptions {
  std::string config;
  std::vector<std::string> settings;     // of the job
  std::vector<StrategyKind> strategies;  // `none` is measured whether it is named or not
  int rounds = 2;
  int kills = 3;  // of workers in each run
  // Also what a warm standby saves, and what a planned move costs, of strategies that keep copies.
  bool prepared = false;
};

struct ProfileOutcome {
  RuntimeProfile profile;
  int signal = 0;  // that interrupted it: then there is no profile
};

// In each round the job without protection, saves and failures, then each strategy, the order
// turned by one from round to round; where it has several nodes each strategy twice, once with the
// loss of a node. With `prepared` each strategy that keeps copies once more with a standby, and,
// where the job has several nodes, once with a node that is announced to go; both have a spare.
// Progress goes to standard error, a line for each run.
absl::StatusOr<ProfileOutcome> measure_profile(const ProfileRunOptions& options,
                                               const JobConfig& job, const std::string& folder,
                                               JobRunner& runner);

}  // namespace evermoe
