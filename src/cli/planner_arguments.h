// A model and a cluster that may fail, as every planning command spells them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/planner_input.h"

namespace CLI {
class App;
}

namespace evermoe {

struct PlannerArguments {
  PlannerNames names;
  int64_t sequences = 0;  // of one step; 0: as the model has it
  int tensor_parallel = 0;
  std::string recompute = "auto";

  // Declares MODEL, CLUSTER, --failures, --set and what decides the layout.
  void add(CLI::App& command);

  // With `more` settings after those of --set.
  absl::StatusOr<PlannerInput> load(const std::vector<std::string>& more = {}) const;
};

}  // namespace evermoe
