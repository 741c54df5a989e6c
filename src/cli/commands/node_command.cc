// evermoe node: one machine of a job that a cluster's launcher starts on all of them.
#include <limits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/limits.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/commands/machine_room.h"
#include "cli/commands/node_environment.h"
#include "cli/config_arguments.h"
#include "cli/job_flags.h"
#include "cli/reports/job_view.h"
#include "cli/worker_program.h"
#include "control/folder/job_end.h"
#include "control/folder/job_folder.h"
#include "control/keys/job_keys.h"
#include "control/launch/node_run.h"
#include "env/files.h"

namespace evermoe {
namespace {

struct NodeCommand {
  ConfigArguments config;
  std::string out;
  std::string worker;  // its program
  std::string keys;    // their folder; empty: OUT/keys
  std::string faults;  // to rehearse
  NodePlace place;
  int spares = 0;
  int drained_exit_code = kExitOk;
  JobViewOptions view;
};

// Of a job of several nodes: made in the output folder unless they are elsewhere.
absl::Status find_keys(NodeCommand& command) {
  NodeKeys node;
  node.is_first = command.place.node == 0;
  node.may_make = command.keys.empty();
  if (node.may_make) command.keys = join_path(command.out, "keys");
  node.directory = command.keys;
  if (node.may_make && node.is_first)
    RETURN_IF_ERROR(check_output_folder(real_files(), command.out));
  return keys_of_node(real_clock(), node).status();
}

absl::StatusOr<JobRunOptions> run_options(const NodeCommand& command, const JobConfig& config) {
  JobRunOptions job;
  ASSIGN_OR_RETURN(job.config, fitted(config));
  ASSIGN_OR_RETURN(job.worker, find_worker(command.worker));
  const bool is_alone = command.place.nodes == 1;
  ASSIGN_OR_RETURN(job.faults,
                   load_faults(command.faults, job.config,
                               is_alone ? FaultReach::kOneMachine : FaultReach::kManyMachines));
  job.build = build_fingerprint();
  job.out = command.out;
  return job;
}

int exit_code_of(const NodeCommand& command, const RunSummary& summary) {
  return summary.status == RunStatus::kDrained ? command.drained_exit_code : summary.exit_code;
}

absl::StatusOr<int> run_alone(const NodeCommand& command, const JobConfig& config) {
  ASSIGN_OR_RETURN(const JobRunOptions job, run_options(command, config));
  RETURN_IF_ERROR(check_room(job.config, machine_room()));
  ASSIGN_OR_RETURN(const RunSummary summary, run_and_show(job, command.view));
  return exit_code_of(command, summary);
}

HostJob host_of(const NodeCommand& command, const JobConfig& config) {
  return [&command, &config](HostOrders& orders) -> absl::StatusOr<RunSummary> {
    ASSIGN_OR_RETURN(JobRunOptions job, run_options(command, config));
    job.address = command.place.listen;
    job.keys = command.keys;
    job.orders = &orders;
    return run_and_show(job, command.view);
  };
}

absl::StatusOr<NodeOptions> node_options(const NodeCommand& command, const JobConfig& config) {
  NodeOptions node;
  node.node = command.place.node;
  node.controller = command.place.join;
  node.keys = command.keys;
  node.config = config;
  node.out = command.out;
  ASSIGN_OR_RETURN(node.worker, find_worker(command.worker));
  node.build = build_fingerprint();
  node.nodes = command.place.nodes;
  node.health.memory_bytes = least_memory_of_node(config);
  node.listen = command.place.listen;
  node.store = config.control.store;
  node.rehearses_faults = !command.faults.empty();
  if (node.node == 0 || !node.store.empty()) node.host = host_of(command, config);
  ASSIGN_OR_RETURN(node.arithmetic,
                   ask_worker(node.worker,
                              {"arithmetic", "--threads", absl::StrCat(config.run.threads),
                               "--device", to_string(config.train.device)},
                              process_environment(config)));
  return node;
}

absl::StatusOr<int> run_among_others(NodeCommand& command, const JobConfig& config) {
  configure_log(absl::StrCat("node ", command.place.node), LogLevel::kInfo);
  RETURN_IF_ERROR(find_keys(command));
  ASSIGN_OR_RETURN(const NodeOptions node, node_options(command, config));
  ASSIGN_OR_RETURN(const NodeEnd end, run_node(real_clock(), node));
  if (end.quit_signal != 0) return kExitSignal + end.quit_signal;
  if (end.hosted) {
    RETURN_IF_ERROR(end.hosted->status());
    return exit_code_of(command, **end.hosted);
  }
  if (end.job.ok) return end.job.is_drained ? command.drained_exit_code : kExitOk;
  return failure_of(end.job);
}

// Where the others reach this machine, as far as its name says.
std::string own_address() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) return "";
  return absl::StrCat(host, ":", kControllerPort);
}

absl::StatusOr<int> run(NodeCommand command) {
  ASSIGN_OR_RETURN(JobConfig config, command.config.load());
  NodePlace& place = command.place;
  if (!config.control.store.empty()) {
    if (place.listen.empty()) place.listen = own_address();
    if (place.join.empty()) place.join = place.listen;
  }
  place.may_come_later = config.elastic.enabled;
  RETURN_IF_ERROR(complete_from_environment(place));
  RETURN_IF_ERROR(deal_nodes(command.place.nodes, command.spares, config));
  const bool is_alone = command.place.nodes == 1 && command.place.listen.empty();
  return is_alone ? run_alone(command, config) : run_among_others(command, config);
}

}  // namespace

void add_node_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<NodeCommand>();
  CLI::App* command = app.add_subcommand(
      "node",
      "Train as one node of a cluster: start it on every machine, under torchrun, srun or mpirun.");
  add_job_of_nodes(*command, options->config, options->out);
  command
      ->add_option("--node", options->place.node,
                   "number of this node, from 0 (default: the launcher's)")
      ->type_name("N")
      ->check(CLI::Range(0, kJobNodesMax));
  add_node_counts(*command, options->place.nodes, "the launcher's", options->spares);
  command
      ->add_option("--join", options->place.join,
                   "where the controller is (default: MASTER_ADDR:MASTER_PORT)")
      ->type_name("HOST:PORT");
  command
      ->add_option(
          "--listen", options->place.listen,
          "where this node listens if it hosts the job, as node 0 does unless `evermoe "
          "controller` does, and with control.store any node may (default: as --join; with "
          "control.store this machine's name, port 29600)")
      ->type_name("HOST:PORT");
  command
      ->add_option("--keys", options->keys,
                   "folder of the job's keys, which `evermoe keys new` makes, for nodes without a "
                   "shared folder (default: OUT/keys, which node 0 makes)")
      ->type_name("DIR");
  command
      ->add_option(
          "--worker", options->worker,
          "the workers' program (default: evermoe-worker beside evermoe, or EVERMOE_WORKER)")
      ->type_name("PROGRAM");
  add_faults(*command, options->faults);
  command->add_flag("--json", options->view.json,
                    "node 0 prints the summary as one JSON object, and progress on standard error");
  command->add_flag("--quiet", options->view.quiet, "show no progress");
  add_drained_exit_code(*command, options->drained_exit_code);
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
