// What the runs of an experiment come to.
//
// ETTR of a run = N x s / (T - b): N steps, s the mean seconds of a step of its *yardsticks*, T the
// seconds of the run, and b what a yardstick's T has beside its steps (start, end, final save).
// Yardsticks are the same job without failures, protection, durable checkpoints on the way and
// evaluations, run just before the run and just after it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

struct Yardstick {
  double step_seconds = 0;    // mean of all steps but the first
  double beside_seconds = 0;  // b
};

// Of a finished run's seconds and its metrics.jsonl (docs/run-summary.md). FailedPrecondition with
// one line if fewer than two steps of it are there.
absl::StatusOr<Yardstick> yardstick_of(double run_seconds, int64_t steps,
                                       const std::string& metrics);

// Of what was between two yardsticks.
Yardstick mean_of(const Yardstick& before, const Yardstick& after);

// Nothing if the run took no time beside b.
std::optional<double> ettr_of(double run_seconds, int64_t steps, const Yardstick& yardstick);

// Mean and half the width of its 95 % confidence interval (Student's t), nothing for fewer than
// two values. REQUIRES: at least one value.
struct Spread {
  double mean = 0;
  std::optional<double> half_width;
};
Spread spread_of(const std::vector<double>& values);

// The object that an experiment ends with: `runs`, and for each system and failure process
// `summaries`. Runs that did not finish have no ETTR and are counted apart.
nlohmann::json report_of(const std::vector<nlohmann::json>& runs);
// The runs' single values as a table with a header.
std::string csv_of(const std::vector<nlohmann::json>& runs);

}  // namespace evermoe
