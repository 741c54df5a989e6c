#include "cli/planner_arguments.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "env/files.h"

namespace evermoe {

void PlannerArguments::add(CLI::App& command) {
  command.add_option("MODEL", names.model, "a preset's name, or a job's configuration (.toml)")
      ->required();
  command
      .add_option("CLUSTER", names.cluster,
                  "a cluster (.toml), or a GPU's name for a default cluster of that GPU")
      ->required();
  command
      .add_option("--failures", names.failures,
                  "keys of [failures] as KEY=VALUE,..., or a recorded failure trace (.csv)")
      ->type_name("LAW");
  command
      .add_option(
          "--recovery", names.recovery,
          "a job that `evermoe profile --job` measured, whose times of recoveries and moves "
          "count instead of the cluster's")
      ->type_name("PROFILE.toml");
  command
      .add_option("--set", names.settings,
                  "change a key of the cluster or of the job's configuration")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--sequences", sequences,
                  "sequences of one step, with a preset (default: about 8192 tokens per GPU, so it "
                  "grows with the cluster)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  command
      .add_option(
          "--tensor-parallel", tensor_parallel,
          "GPUs that share each lane's matrices, 0 to choose (more than 1 is a forecast only)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option(
          "--recompute", recompute,
          "activations to compute again instead of keeping them: auto, none, experts or layer")
      ->capture_default_str();
}

absl::StatusOr<PlannerInput> PlannerArguments::load(const std::vector<std::string>& more) const {
  PlannerNames all = names;
  all.settings.insert(all.settings.end(), more.begin(), more.end());
  ASSIGN_OR_RETURN(PlannerInput input, load_planner_input(real_files(), all));
  RETURN_IF_ERROR(apply_layout({sequences, tensor_parallel, recompute}, input.job.model));
  return input;
}

}  // namespace evermoe
