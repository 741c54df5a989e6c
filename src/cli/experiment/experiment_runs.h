// The runs of an experiment, as processes `evermoe run`, one at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/experiment/experiment_file.h"

namespace evermoe {

struct ExperimentOptions {
  std::string file;
  std::string out;
  // Seconds of one run, after which it is killed and counts as unfinished.
  double run_seconds_max = 3600;
  bool json = false;
};

struct ExperimentOutcome {
  std::vector<nlohmann::json> runs;
  int signal = 0;  // that interrupted it; else 0
};

// For each failure process and seed a yardstick, then each strategy. A finished run is written to
// OUT/results, and one that is there is not run again: so an interrupted experiment goes on.
// InvalidInput if OUT holds another experiment, by the file's and the configuration's text.
// Progress goes to standard error, a line for each run. SIGINT, SIGTERM and SIGHUP end the run
// under way.
absl::StatusOr<ExperimentOutcome> run_experiment(const ExperimentOptions& options);

}  // namespace evermoe
