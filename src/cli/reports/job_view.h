// Runs a job in front of a person or a script: progress while it goes on, the result at its end.
#pragma once

#include "absl/status/statusor.h"
#include "control/launch/job_run.h"

namespace evermoe {

struct JobViewOptions {
  bool json = false;   // the last line of standard output is the result alone, progress goes to
                       // standard error
  bool quiet = false;  // no progress
};

// As run_job(); prints the result unless it is an error, or another host has the job now.
absl::StatusOr<RunSummary> run_and_show(const JobRunOptions& job, const JobViewOptions& options);

// The configuration with as many copies as its memory allows; says so where that is fewer.
absl::StatusOr<JobConfig> fitted(JobConfig config);

}  // namespace evermoe
