// A model and a cluster that may fail, as every planning command spells them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "forecast/planner_input.h"

namespace CLI {
class App;
}

namespace evermoe {

struct PlannerArguments {
  PlannerNames names;

  // Declares MODEL, CLUSTER, --failures and --set.
  void add(CLI::App& command);

  // With `more` settings after those of --set.
  absl::StatusOr<PlannerInput> load(const std::vector<std::string>& more = {}) const;
};

}  // namespace evermoe
