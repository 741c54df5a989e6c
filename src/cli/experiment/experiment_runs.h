// The runs of an experiment, as processes `evermoe run`, one at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/experiment/experiment_file.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

struct ExperimentOptions {
  std::string file;
  std::string out;
  // Seconds of one run, after which it is killed and counts as unfinished.
  double run_seconds_max = 3600;
  std::string profile;     // a runtime profile of the job; empty: the folder's, or one is measured
  int profile_rounds = 2;  // of one that is measured; 0: none is, and nothing is predicted
  bool json = false;
};

struct ExperimentOutcome {
  std::vector<nlohmann::json> runs;
  std::optional<RuntimeProfile> profile;
  int signal = 0;  // that interrupted it; else 0
};

// First the job's profile, unless there is one. Then for each failure process and seed a yardstick,
// and each system, with a shorter yardstick behind it. A finished run is written to OUT/results and
// the profile to OUT/profile.toml, and what is there is not run again: so an interrupted experiment
// goes on.
// InvalidInput if OUT holds another experiment, by the file's and the configuration's text, or if
// the profile is of another job. Progress goes to standard error, a line for each run. SIGINT,
// SIGTERM and SIGHUP end the run under way.
absl::StatusOr<ExperimentOutcome> run_experiment(const ExperimentOptions& options);

}  // namespace evermoe
