#include "control/launch/control_processes.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "control/agent/agent.h"
#include "control/controller/control_options.h"
#include "control/controller/controller_server.h"
#include "env/files.h"

namespace evermoe {
namespace {

// From the end of a line over a network until its agent is lost: it may be back before.
constexpr absl::Duration kReturnMax = absl::Seconds(1);

// A line inside this machine ends with one of its ends, and not otherwise.
bool is_local_address(const std::string& address) { return address.starts_with("unix"); }

}  // namespace

std::function<WorkerCommand(const SpawnWorker&, const std::string&)> command_of(
    const AgentProcessOptions& options, const Topology& topology) {
  return [options, topology](const SpawnWorker& worker, const std::string& agent) {
    WorkerCommand command{options.worker, options.worker_arguments, {}};
    for (const std::string& argument :
         {std::string("--rank"), absl::StrCat(worker.rank.value), std::string("--since"),
          absl::StrCat(worker.since.value), std::string("--agent"), agent, std::string("--node"),
          absl::StrCat(options.node.value), std::string("--term"), absl::StrCat(worker.term.number),
          std::string("--term-owner"), worker.term.owner}) {
      command.arguments.push_back(argument);
    }
    command.log_path =
        join_path(options.out, absl::StrCat("logs/worker-", topology.name_of(worker.rank), ".log"));
    return command;
  };
}

void add_flags(CLI::App& app, ControllerProcessOptions& options) {
  app.add_option("--config", options.config, "the job's stored configuration, OUT/config.toml")
      ->type_name("FILE")
      ->required();
  app.add_option("--address", options.address, "where to listen")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--life", options.life, "how many controllers the job had before this one")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--term", options.term.number, "the run's term of the output folder")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--term-owner", options.term.owner, "whose term it is")->type_name("WHO");
}

void add_flags(CLI::App& app, AgentProcessOptions& options) {
  app.add_option("--config", options.config, "the job's stored configuration, OUT/config.toml")
      ->type_name("FILE")
      ->required();
  app.add_option("--out", options.out, "the job's output folder")->type_name("DIR")->required();
  app.add_option("--node", options.node.value, "the node's number")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->required();
  app.add_option("--controller", options.controller, "where the controller listens")
      ->type_name("HOST:PORT")
      ->required();
  app.add_option("--address", options.address, "where to listen for workers")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--kept-fd", options.kept_fd, "descriptor that every worker keeps open")
      ->type_name("FD");
  app.add_option("--worker", options.worker, "the workers' program")
      ->type_name("PROGRAM")
      ->required();
  app.add_option("ARGUMENTS", options.worker_arguments, "first arguments of every worker, after --")
      ->type_name("WORD");
}

std::vector<std::string> to_flags(const ControllerProcessOptions& options) {
  return {"--config",     options.config,
          "--address",    options.address,
          "--life",       absl::StrCat(options.life),
          "--term",       absl::StrCat(options.term.number),
          "--term-owner", options.term.owner};
}

std::vector<std::string> to_flags(const AgentProcessOptions& options) {
  std::vector<std::string> flags = {
      "--config",      options.config,     "--out",
      options.out,     "--node",           absl::StrCat(options.node.value),
      "--controller",  options.controller, "--address",
      options.address, "--worker",         options.worker};
  if (options.kept_fd >= 0) flags.insert(flags.end(), {"--kept-fd", absl::StrCat(options.kept_fd)});
  flags.push_back("--");
  flags.insert(flags.end(), options.worker_arguments.begin(), options.worker_arguments.end());
  return flags;
}

absl::Status run_controller(const ControllerProcessOptions& options) {
  prctl(PR_SET_NAME, "evermoe.ctl");  // for ps and top
  configure_log("controller", LogLevel::kInfo);
  ASSIGN_OR_RETURN(const JobConfig config, load_stored_config(options.config));
  ControllerServerOptions own = controller_options(config);
  own.address = options.address;
  own.relay.life = options.life;
  if (!is_local_address(options.address)) own.relay.return_max = kReturnMax;
  own.relay.term = options.term;
  ASSIGN_OR_RETURN(const auto server, ControllerServer::start(own, real_clock()));
  log_info(absl::StrCat("controller ", options.life, " listens at ", server->address()));
  const EndJob end = server->run();
  if (end.ok) return absl::OkStatus();
  return end.bad_input ? InvalidInput(end.reason) : Internal(end.reason);
}

absl::Status run_agent(const AgentProcessOptions& options) {
  const std::string name = absl::StrCat("agent ", options.node.value);
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", name).c_str());
  configure_log(name, LogLevel::kInfo);
  ASSIGN_OR_RETURN(const JobConfig config, load_stored_config(options.config));
  AgentOptions own;
  own.controller = options.controller;
  own.address = options.address;
  own.command = command_of(options, topology_of(config));
  own.kept_fd = options.kept_fd;
  own.core = agent_options(config);
  own.core.node = options.node;
  own.core.pid = ::getpid();
  ASSIGN_OR_RETURN(const auto agent, Agent::start(std::move(own), real_clock()));
  return agent->run();
}

}  // namespace evermoe
