#include "cli/planner_arguments.h"

#include <CLI/CLI.hpp>

#include "env/files.h"

namespace evermoe {

void PlannerArguments::add(CLI::App& command) {
  command.add_option("MODEL", names.model, "name of a preset, or a job's configuration (.toml)")->required();
  command.add_option("CLUSTER", names.cluster, "a cluster (.toml), or the name of a GPU for an ordinary one of it")->required();
  command.add_option("--failures", names.failures, "KEY=VALUE,... of [failures], or a recorded failure trace (.csv)")->type_name("LAW");
  command.add_option("--set", names.settings, "change a key of the cluster or of the job's configuration")->type_name("KEY=VALUE")->allow_extra_args(false);
}

absl::StatusOr<PlannerInput> PlannerArguments::load(const std::vector<std::string>& more) const {
  PlannerNames all = names;
  all.settings.insert(all.settings.end(), more.begin(), more.end());
  return load_planner_input(real_files(), all);
}

}  // namespace evermoe
