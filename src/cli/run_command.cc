// evermoe run: a whole job on this machine.
#include "cli/run_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/config_arguments.h"
#include "cli/job_view.h"
#include "faults/fault_script.h"

namespace evermoe {
namespace {

struct RunOptions {
  ConfigArguments config;
  std::string out;
  std::string faults;
  int nodes = 0;    // 0: as configured
  int spares = -1;  // -1: as configured
  bool json = false;
  bool quiet = false;
};

// out/NAME for a configuration .../NAME.toml.
std::string default_out(const std::string& config_path) {
  const std::string name = base_name(config_path);
  const size_t dot = name.rfind('.');
  return join_path("out", dot == std::string::npos || dot == 0 ? name : name.substr(0, dot));
}

absl::StatusOr<JobConfig> load(const RunOptions& options) {
  ConfigArguments config = options.config;
  if (options.nodes > 0) config.settings.push_back(absl::StrCat("run.nodes=", options.nodes));
  if (options.spares >= 0) config.settings.push_back(absl::StrCat("run.spares=", options.spares));
  ASSIGN_OR_RETURN(JobConfig loaded, config.load());
  return fitted(std::move(loaded));
}

absl::StatusOr<FaultScript> load_faults(const std::string& path, const JobConfig& config) {
  if (path.empty()) return FaultScript();
  const FaultLimits limits{{config.parallel.lanes.begin(), config.parallel.lanes.end()},
                           static_cast<int>(config.run.nodes + config.run.spares)};
  return load_fault_script(real_files(), path, limits);
}

absl::StatusOr<int> run(const RunOptions& options) {
  JobRunOptions job;
  ASSIGN_OR_RETURN(job.config, load(options));
  ASSIGN_OR_RETURN(job.faults, load_faults(options.faults, job.config));
  job.out = options.out.empty() ? default_out(options.config.path) : options.out;
  ASSIGN_OR_RETURN(const RunSummary summary, run_and_show(job, {options.json, options.quiet}));
  return summary.exit_code;
}

}  // namespace

void add_run_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Train: start or resume a job with all its workers on this machine");
  command->add_option("CONFIG", options->config.path, "TOML file")->required();
  options->config.add_settings(*command);
  command->add_option("--out", options->out, "output folder; the job resumes what it finds there (default: out/CONFIG)");
  command->add_option("--nodes", options->nodes, "simulated nodes, each with an agent (run.nodes)")->check(CLI::Range(1, 1 << 16));
  command->add_option("--spares", options->spares, "nodes more that take over from lost ones (run.spares)")->check(CLI::Range(0, 1 << 16));
  command->add_option("--faults", options->faults, "TOML file with faults to rehearse (docs/recovery.md)");
  command->add_flag("--json", options->json, "print the result as one JSON object, and progress on standard error");
  command->add_flag("--quiet", options->quiet, "show no progress");
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
