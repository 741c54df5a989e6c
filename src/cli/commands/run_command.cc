// evermoe run: a whole job on this machine.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/limits.h"
#include "cli/commands/commands.h"
#include "cli/commands/machine_room.h"
#include "cli/config_arguments.h"
#include "cli/job_flags.h"
#include "cli/reports/job_view.h"
#include "cli/worker_program.h"
#include "config/validate_config.h"

namespace evermoe {
namespace {

struct RunOptions {
  ConfigArguments config;
  std::string out;
  std::string faults;
  std::string worker;
  int nodes = 0;    // 0: as configured
  int spares = -1;  // -1: as configured
  bool json = false;
  bool quiet = false;
  int drained_exit_code = kExitOk;
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
  RETURN_IF_ERROR(check_racks(loaded.run));
  return fitted(std::move(loaded));
}

absl::StatusOr<int> run(const RunOptions& options) {
  JobRunOptions job;
  ASSIGN_OR_RETURN(job.config, load(options));
  ASSIGN_OR_RETURN(job.faults, load_faults(options.faults, job.config, FaultReach::kOneMachine));
  RETURN_IF_ERROR(check_room(job.config, machine_room()));
  ASSIGN_OR_RETURN(job.worker, find_worker(options.worker));
  job.build = build_fingerprint();
  job.out = options.out.empty() ? default_out(options.config.path) : options.out;
  ASSIGN_OR_RETURN(const RunSummary summary, run_and_show(job, {options.json, options.quiet}));
  return summary.status == RunStatus::kDrained ? options.drained_exit_code : summary.exit_code;
}

}  // namespace

void add_run_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "Train: start or resume a job on this machine, and replace the workers that fail.");
  command->add_option("CONFIG", options->config.path, "the job's configuration")
      ->type_name("FILE.toml")
      ->required();
  options->config.add_settings(*command);
  command
      ->add_option(
          "--out", options->out,
          "output folder; a job that is found there is resumed (default: out/NAME for NAME.toml)")
      ->type_name("DIR");
  command->add_option("--nodes", options->nodes, "simulated nodes, each with an agent (run.nodes)")
      ->type_name("N")
      ->check(CLI::Range(1, kJobNodesMax));
  command
      ->add_option("--spares", options->spares, "spare nodes that replace failed ones (run.spares)")
      ->type_name("N")
      ->check(CLI::Range(0, kJobNodesMax));
  add_faults(*command, options->faults);
  command
      ->add_option(
          "--worker", options->worker,
          "the workers' program (default: evermoe-worker beside evermoe, or EVERMOE_WORKER)")
      ->type_name("PROGRAM");
  command->add_flag(
      "--json", options->json,
      "print the summary as one JSON object (docs/run-summary.md), and progress on standard error");
  command->add_flag("--quiet", options->quiet, "show no progress");
  add_drained_exit_code(*command, options->drained_exit_code);
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
