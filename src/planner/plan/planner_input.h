// A job and a cluster that may fail, by the names that people give them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/failures/failure_trace.h"
#include "planner/plan/plan_input.h"

namespace evermoe {

struct PlannerNames {
  std::string model;    // a preset, or a job's configuration (.toml)
  std::string cluster;  // a cluster (.toml), or a GPU's name for default_cluster() with it
  std::string
      failures;  // "KEY=VALUE,..." of [failures], or a recorded failure trace (.csv); may be empty
  std::string recovery;  // a profile of a job, whose [recovery] is the cluster's; may be empty
  std::vector<std::string> settings;  // "KEY=VALUE" of the cluster or of the job's configuration
};

struct PlannerInput {
  PlannedJob job;
  ClusterSpec cluster;
  std::optional<FailureTrace> trace;  // then cluster.failures is the law that fits it
};

// Applied in order: the files, recovery, failures, settings. InvalidInput with one line.
absl::StatusOr<PlannerInput> load_planner_input(Files& files, const PlannerNames& names);

}  // namespace evermoe
