// What one run of an experiment comes to, as the entry of `runs` (docs/experiments.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/experiment/experiment_results.h"
#include "cli/experiment/job_process.h"
#include "config/job_config.h"
#include "planner/measured/measured_run.h"

namespace evermoe {

// The yardsticks just before a run and just after it.
struct Yardsticks {
  Yardstick before, after;
};

// Everything that was measured. What the run does not say is null.
nlohmann::json run_record(const JobEnd& end, const std::string& system, const JobConfig& job,
                          const std::string& process, uint64_t seed, const Yardsticks& around);

// Adds `predicted_ettr`, `prediction_error` (predicted less measured) and `predicted`, where the
// time goes.
void add_prediction(const PredictedRun& predicted, nlohmann::json& record);
// All of them null.
void add_no_prediction(nlohmann::json& record);

}  // namespace evermoe
