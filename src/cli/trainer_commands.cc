// The commands that train: `run` on this machine, `node` on the machines of a cluster, and the processes that
// they start.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/run_command.h"
#include "cli/worker.h"
#include "cluster/control_processes.h"

namespace evermoe {

namespace {

void add_worker_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<WorkerOptions>();
  CLI::App* command = app.add_subcommand("worker", "Play one role of a job (started by an agent)");
  command->add_option("--config", options->config_path, "TOML file")->required();
  command->add_option("--out", options->out, "output folder of the job")->required();
  command->add_option("--rank", options->rank.value, "the role")->required();
  command->add_option("--since", options->since.value, "the view from which this worker joins")->required();
  command->add_option("--agent", options->agent, "where its agent listens")->required();
  command->add_option("--node", options->node, "the node of the agent");
  command->add_option("--faults", options->faults, "file with the faults that are rehearsed");
  command->add_option("--faults-began", options->faults_began, "when the job began, in seconds of the machine's clock");
  commands[command] = [options]() -> absl::StatusOr<int> {
    RETURN_IF_ERROR(run_worker(*options));
    return 0;
  };
}

// Their flags are those of cluster/control_processes.h, which the run gives them.
void add_control_command(CLI::App& app, CommandTable& commands, const char* name, const char* what,
                         std::function<absl::Status(const std::vector<std::string>&)> run) {
  CLI::App* command = app.add_subcommand(name, what);
  command->prefix_command();
  commands[command] = [command, run = std::move(run)]() -> absl::StatusOr<int> {
    RETURN_IF_ERROR(run(command->remaining()));
    return 0;
  };
}

absl::Status controller(const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(const ControllerServerOptions options, parse_controller_flags(flags));
  return run_controller(options);
}

absl::Status agent(const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(const AgentProcessOptions options, parse_agent_flags(flags));
  return run_agent(options);
}

}  // namespace

void add_trainer_commands(CLI::App& app, CommandTable& commands) {
  add_run_command(app, commands);
  add_node_command(app, commands);
  add_worker_command(app, commands);
  add_control_command(app, commands, "controller", "Decide for a protected job (started by run)", controller);
  add_control_command(app, commands, "agent", "Start and watch the workers of one node (started by run)", agent);
}

}  // namespace evermoe
