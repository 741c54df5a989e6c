#include "cli/job_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/limits.h"
#include "faults/fault_script.h"

namespace evermoe {

void add_drained_exit_code(CLI::App& command, int& code) {
  command
      .add_option("--drained-exit-code", code,
                  "exit code where the job was drained, for scripts that start it again")
      ->type_name("N")
      ->check(CLI::Range(0, 127))
      ->capture_default_str();
}

void add_job_of_nodes(CLI::App& command, ConfigArguments& config, std::string& out) {
  command.add_option("CONFIG", config.path, "the job's configuration, the same on all nodes")
      ->type_name("FILE.toml")
      ->required();
  config.add_settings(command);
  command.add_option("--out", out, "output folder of the job, seen by all nodes")
      ->type_name("DIR")
      ->required();
}

void add_node_counts(CLI::App& command, int& nodes, const std::string& nodes_default, int& spares) {
  command.add_option("--nodes", nodes, absl::StrCat("nodes in all (default: ", nodes_default, ")"))
      ->type_name("N")
      ->check(CLI::Range(1, kJobNodesMax));
  command.add_option("--spares", spares, "of these, spare nodes that replace failed ones")
      ->type_name("N")
      ->check(CLI::Range(0, kJobNodesMax));
}

void add_faults(CLI::App& command, std::string& path) {
  command.add_option("--faults", path, "faults to rehearse (docs/recovery.md)")
      ->type_name("FILE.toml");
}

absl::StatusOr<FaultScript> load_faults(const std::string& path, const JobConfig& config,
                                        FaultReach reach) {
  if (path.empty()) return FaultScript();
  const FaultLimits limits{{config.parallel.lanes.begin(), config.parallel.lanes.end()},
                           static_cast<int>(config.run.nodes + config.run.spares)};
  ASSIGN_OR_RETURN(FaultScript script, load_fault_script(real_files(), path, limits));
  for (const Fault& fault : script.faults) {
    if (reach == FaultReach::kManyMachines &&
        (fault.after_seconds || fault.kind == FaultKind::kKillController ||
         is_of_run(fault.kind))) {
      return InvalidInput(absl::StrCat(path, ": ", to_string(fault),
                                       ": among nodes of several machines faults come by step or "
                                       "recovery, and to workers and nodes that are there"));
    }
  }
  return script;
}

}  // namespace evermoe
