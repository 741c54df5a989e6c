// evermoe controller: hosts a job whose nodes are elsewhere.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/build_fingerprint.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/limits.h"
#include "cli/commands/commands.h"
#include "cli/commands/node_environment.h"
#include "cli/config_arguments.h"
#include "cli/job_flags.h"
#include "cli/reports/job_view.h"
#include "control/keys/job_keys.h"
#include "control/launch/node_run.h"
#include "env/files.h"

namespace evermoe {
namespace {

struct HostCommand {
  ConfigArguments config;
  std::string out;
  std::string listen;
  std::string keys;    // their folder; empty: OUT/keys
  std::string faults;  // to rehearse
  int nodes = 0;       // 0: as configured
  int spares = 0;
  int drained_exit_code = kExitOk;
  JobViewOptions view;
};

absl::StatusOr<int> run(const HostCommand& command) {
  ASSIGN_OR_RETURN(JobConfig config, command.config.load());
  if (!config.control.store.empty())
    return InvalidInput("with control.store the nodes host the job: start no controller apart");
  RETURN_IF_ERROR(check_address("--listen", command.listen));
  if (command.nodes == 0 && command.spares > 0)
    return InvalidInput("--spares: found it without --nodes, allowed: both, or neither");
  const int configured = static_cast<int>(config.run.nodes + config.run.spares);
  const int nodes = command.nodes > 0 ? command.nodes : configured;
  const int spares = command.nodes > 0 ? command.spares : static_cast<int>(config.run.spares);
  RETURN_IF_ERROR(deal_nodes(nodes, spares, config));
  JobRunOptions job;
  ASSIGN_OR_RETURN(job.config, fitted(config));
  ASSIGN_OR_RETURN(job.faults, load_faults(command.faults, job.config, FaultReach::kManyMachines));
  job.build = build_fingerprint();
  job.out = command.out;
  job.address = command.listen;
  const bool may_make = command.keys.empty();
  job.keys = may_make ? join_path(command.out, "keys") : command.keys;
  RETURN_IF_ERROR(
      keys_of_node(real_clock(), {.directory = job.keys, .is_first = true, .may_make = may_make})
          .status());
  const absl::StatusOr<RunSummary> summary = run_and_show(job, command.view);
  tell_what_nobody_heard(command.listen, job.keys, nodes, summary);
  RETURN_IF_ERROR(summary.status());
  if (summary->status == RunStatus::kTakenOver) std::cerr << "evermoe: " << summary->reason << "\n";
  return summary->status == RunStatus::kDrained ? command.drained_exit_code : summary->exit_code;
}

}  // namespace

void add_controller_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<HostCommand>();
  CLI::App* command = app.add_subcommand(
      "controller",
      "Host a job whose nodes run elsewhere (evermoe node): the controller, progress and summary.");
  add_job_of_nodes(*command, options->config, options->out);
  command->add_option("--listen", options->listen, "where the nodes find it: their --join")
      ->type_name("HOST:PORT")
      ->required();
  add_node_counts(*command, options->nodes, "as configured", options->spares);
  command
      ->add_option("--keys", options->keys,
                   "folder of the job's keys, which `evermoe keys new` makes (default: OUT/keys)")
      ->type_name("DIR");
  add_faults(*command, options->faults);
  add_drained_exit_code(*command, options->drained_exit_code);
  command->add_flag("--json", options->view.json,
                    "print the summary as one JSON object, and progress on standard error");
  command->add_flag("--quiet", options->view.quiet, "show no progress");
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
