// evermoe node: one machine of a job that a cluster's launcher starts on all of them.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/job_view.h"
#include "cli/node_environment.h"
#include "cluster/node_run.h"

namespace evermoe {
namespace {

struct NodeCommand {
  ConfigArguments config;
  std::string out;
  NodePlace place;
  int spares = 0;
  JobViewOptions view;
};

// Node 0 knows how the job ended, or why it did not begin; who waits for its controller is told here.
absl::StatusOr<int> run_first(const NodeCommand& command, const JobConfig& config) {
  const int others = command.place.nodes - 1;
  JobRunOptions job;
  job.config = config;
  job.out = command.out;
  if (others > 0) job.address = command.place.listen;
  const absl::StatusOr<RunSummary> summary = run_and_show(job, command.view);
  if (others > 0 && !summary.ok()) {
    tell_nodes(job.address, others, {false, absl::IsInvalidArgument(summary.status()), std::string(summary.status().message())});
  } else if (others > 0 && summary->status == RunStatus::kNothingToDo) {
    tell_nodes(job.address, others, {true, false, summary->reason});
  }
  if (!summary.ok()) return summary.status();
  return summary->exit_code;
}

absl::StatusOr<int> run_other(const NodeCommand& command, const JobConfig& config) {
  NodeOptions node;
  node.node = command.place.node;
  node.controller = command.place.join;
  node.config = config;
  node.out = command.out;
  ASSIGN_OR_RETURN(const EndJob end, run_node(real_clock(), node));
  if (end.ok) return 0;
  return end.bad_input ? InvalidInput(end.reason) : Internal(end.reason);
}

absl::StatusOr<int> run(NodeCommand command) {
  RETURN_IF_ERROR(complete_from_environment(command.place));
  ASSIGN_OR_RETURN(JobConfig config, command.config.load());
  RETURN_IF_ERROR(deal_nodes(command.place.nodes, command.spares, config));
  if (command.place.node > 0) return run_other(command, config);
  ASSIGN_OR_RETURN(config, fitted(std::move(config)));
  return run_first(command, config);
}

}  // namespace

void add_node_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<NodeCommand>();
  CLI::App* command = app.add_subcommand(
      "node", "Train as one node of a cluster: start it on every machine, under torchrun, srun or mpirun");
  command->add_option("CONFIG", options->config.path, "TOML file, the same on all nodes")->required();
  options->config.add_settings(*command);
  command->add_option("--out", options->out, "output folder of the job, seen by all nodes")->required();
  command->add_option("--node", options->place.node, "number of this node, from 0 (default: the launcher's)")
      ->check(CLI::Range(0, 1 << 16));
  command->add_option("--nodes", options->place.nodes, "nodes in all (default: the launcher's)")->check(CLI::Range(1, 1 << 16));
  command->add_option("--spares", options->spares, "of these, spare nodes that replace failed ones")->check(CLI::Range(0, 1 << 16));
  command->add_option("--join", options->place.join, "HOST:PORT of node 0 (default: MASTER_ADDR:MASTER_PORT)");
  command->add_option("--listen", options->place.listen, "HOST:PORT where node 0 listens (default: as --join)");
  command->add_flag("--json", options->view.json, "node 0 prints the result as one JSON object, and progress on standard error");
  command->add_flag("--quiet", options->view.quiet, "show no progress");
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
