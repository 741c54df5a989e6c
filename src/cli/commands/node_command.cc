// evermoe node: one machine of a job that a cluster's launcher starts on all of them.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "base/limits.h"
#include "cli/commands/commands.h"
#include "cli/commands/machine_room.h"
#include "cli/commands/node_environment.h"
#include "cli/config_arguments.h"
#include "cli/reports/job_view.h"
#include "cli/worker_program.h"
#include "control/launch/node_run.h"

namespace evermoe {
namespace {

struct NodeCommand {
  ConfigArguments config;
  std::string out;
  std::string worker;  // its program
  NodePlace place;
  int spares = 0;
  JobViewOptions view;
};

absl::StatusOr<RunSummary> train(const NodeCommand& command, const JobConfig& config) {
  const bool is_alone = command.place.nodes == 1;
  JobRunOptions job;
  ASSIGN_OR_RETURN(job.config, fitted(config));
  if (is_alone) RETURN_IF_ERROR(check_room(job.config, machine_room()));
  ASSIGN_OR_RETURN(job.worker, find_worker(command.worker));
  job.build = build_fingerprint();
  job.out = command.out;
  if (!is_alone) job.address = command.place.listen;
  return run_and_show(job, command.view);
}

// Node 0 knows how the job ended, or why it did not begin; who waits for its controller is told
// here.
absl::StatusOr<int> run_first(const NodeCommand& command, const JobConfig& config) {
  const absl::StatusOr<RunSummary> summary = train(command, config);
  const int others = command.place.nodes - 1;
  const absl::Status& status = summary.status();
  if (others > 0 && !status.ok()) {
    tell_nodes(command.place.listen, others,
               {false, absl::IsInvalidArgument(status), std::string(status.message())});
  } else if (others > 0 && summary->status == RunStatus::kNothingToDo) {
    tell_nodes(command.place.listen, others, {true, false, summary->reason});
  }
  if (!status.ok()) return status;
  return summary->exit_code;
}

absl::StatusOr<int> run_other(const NodeCommand& command, const JobConfig& config) {
  NodeOptions node;
  node.node = command.place.node;
  node.controller = command.place.join;
  node.config = config;
  node.out = command.out;
  ASSIGN_OR_RETURN(node.worker, find_worker(command.worker));
  node.build = build_fingerprint();
  ASSIGN_OR_RETURN(const EndJob end, run_node(real_clock(), node));
  if (end.ok) return 0;
  return end.bad_input ? InvalidInput(end.reason) : Internal(end.reason);
}

absl::StatusOr<int> run(NodeCommand command) {
  RETURN_IF_ERROR(complete_from_environment(command.place));
  ASSIGN_OR_RETURN(JobConfig config, command.config.load());
  RETURN_IF_ERROR(deal_nodes(command.place.nodes, command.spares, config));
  return command.place.node > 0 ? run_other(command, config) : run_first(command, config);
}

}  // namespace

void add_node_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<NodeCommand>();
  CLI::App* command = app.add_subcommand(
      "node",
      "Train as one node of a cluster: start it on every machine, under torchrun, srun or mpirun.");
  command
      ->add_option("CONFIG", options->config.path, "the job's configuration, the same on all nodes")
      ->type_name("FILE.toml")
      ->required();
  options->config.add_settings(*command);
  command->add_option("--out", options->out, "output folder of the job, seen by all nodes")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--node", options->place.node,
                   "number of this node, from 0 (default: the launcher's)")
      ->type_name("N")
      ->check(CLI::Range(0, kJobNodesMax));
  command->add_option("--nodes", options->place.nodes, "nodes in all (default: the launcher's)")
      ->type_name("N")
      ->check(CLI::Range(1, kJobNodesMax));
  command->add_option("--spares", options->spares, "of these, spare nodes that replace failed ones")
      ->type_name("N")
      ->check(CLI::Range(0, kJobNodesMax));
  command
      ->add_option("--join", options->place.join,
                   "where node 0 is (default: MASTER_ADDR:MASTER_PORT)")
      ->type_name("HOST:PORT");
  command
      ->add_option("--listen", options->place.listen, "where node 0 listens (default: as --join)")
      ->type_name("HOST:PORT");
  command
      ->add_option(
          "--worker", options->worker,
          "the workers' program (default: evermoe-worker beside evermoe, or EVERMOE_WORKER)")
      ->type_name("PROGRAM");
  command->add_flag("--json", options->view.json,
                    "node 0 prints the summary as one JSON object, and progress on standard error");
  command->add_flag("--quiet", options->view.quiet, "show no progress");
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
