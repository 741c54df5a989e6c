// Means over many simulated runs, and how sure they are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "planner/failures/availability.h"
#include "planner/simulate/run_simulation.h"

namespace evermoe {

struct Estimate {
  int count = 0;  // of independent runs
  double mean = 0;
  double deviation = 0;  // of one run
  double error = 0;      // standard error of the mean; 0 for a single run
  double low = 0;        // 95 % interval of the mean (Student's t)
  double high = 0;
  double half_width() const { return (high - low) / 2; }
};

// REQUIRES: at least one value.
Estimate estimate_mean(std::span<const double> values);

// The mean of a ratio, sum of numerators over sum of denominators, with its error to first order.
// What is right for "useful seconds per second" where runs differ in length. REQUIRES: positive
// denominators.
Estimate estimate_ratio(std::span<const double> numerators, std::span<const double> denominators);

// The two-sided 95 % quantile of Student's t; within 0.0005 of tables. REQUIRES: degrees >= 1.
double student_t_95(int degrees);

struct RunEstimates {
  Estimate ettr;
  Estimate downtime_share;   // recovering and waiting, of the wall time
  Estimate detection_share;  // of the downtime
  Estimate change_share;     // of the downtime: restarts, standbys, other nodes
  Estimate restore_share;    // of the downtime: loading and catching up
  Estimate waiting_share;    // of the downtime
  Estimate rework_share;
  Estimate protection_share;
  Estimate shrunk_share;
  Estimate interruptions_per_day;
  Estimate moves_per_day;                      // from announced nodes; they interrupt nothing
  Estimate downtime_per_interruption_seconds;  // count 0 if no run was ever interrupted
  Estimate lost_share;                         // LOSSY: of the tokens that stayed trained
  int64_t interruptions = 0;                   // in all runs
  int64_t fallbacks = 0;
};

// Runs with the seeds first_seed, first_seed + 1, ...; `source(seed)` makes the availability of
// one. Strategies that are estimated with the same seeds meet the same failures.
RunEstimates estimate_runs(
    const TrainedJob& job, const RunStrategy& strategy, const RunLimits& limits,
    const std::function<std::unique_ptr<AvailabilitySource>(uint64_t)>& source, int runs,
    uint64_t first_seed);

}  // namespace evermoe
