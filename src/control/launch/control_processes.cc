#include "control/launch/control_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "control/agent/agent.h"
#include "control/controller/control_options.h"
#include "control/controller/controller_server.h"
#include "control/folder/job_end.h"
#include "control/wire/private_folder.h"
#include "env/files.h"

namespace evermoe {
namespace {

// From the end of a line over a network until its agent is lost: it may be back before.
constexpr absl::Duration kReturnMax = absl::Seconds(1);
// Ends of connections that were idle for as long miss the others within that of each other: UCX
// asks over TCP every two seconds.
constexpr absl::Duration kOthersWait = absl::Seconds(3);

// A launcher's signal reaches every process of a machine at once. The run, or the node, is whom it
// means: that ends these when nobody needs them any more.
void leave_signals_to_parent() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(number, SIG_IGN);
}

// So that also a host knows of it that has stood still, and one that has just taken the job over.
// Failures are the host's to write: it may know better why.
void note_end(const std::string& out, const FolderTerm& term, const EndJob& end) {
  if (!end.ok || !check_no_contradiction(real_files(), out).ok()) return;
  const absl::Status marked = mark_end(real_files(), out, term, end);
  if (!marked.ok()) log_warning(std::string(marked.message()));
}

WorkerCommand worker_command(const AgentProcessOptions& options, const std::string& agent,
                             const std::string& log) {
  WorkerCommand command{options.worker, options.worker_arguments,
                        join_path(worker_logs(options.out, options.node), log)};
  command.arguments.insert(command.arguments.end(),
                           {"--agent", agent, "--node", absl::StrCat(options.node.value)});
  if (!options.secret.empty())
    command.arguments.insert(command.arguments.end(), {"--secret", options.secret});
  return command;
}

}  // namespace

std::string worker_logs(const std::string& out, Node node) {
  return join_path(out, absl::StrCat("logs/node-", node.value));
}

std::function<WorkerCommand(const SpawnWorker&, const std::string&)> command_of(
    const AgentProcessOptions& options, const Topology& topology) {
  return [options, topology](const SpawnWorker& worker, const std::string& agent) {
    WorkerCommand command = worker_command(
        options, agent, absl::StrCat("worker-", topology.name_of(worker.rank), ".log"));
    const std::string of_role[] = {"--rank",       absl::StrCat(worker.rank.value),
                                   "--since",      absl::StrCat(worker.since.value),
                                   "--start",      absl::StrCat(worker.start),
                                   "--term",       absl::StrCat(worker.term.number),
                                   "--term-owner", worker.term.owner,
                                   "--term-job",   worker.term.job,
                                   "--term-host",  absl::StrCat(worker.term.hosts_before)};
    command.arguments.insert(command.arguments.end(), std::begin(of_role), std::end(of_role));
    return command;
  };
}

std::function<WorkerCommand(const SpawnStandby&, const std::string&)> standby_command_of(
    const AgentProcessOptions& options) {
  return [options](const SpawnStandby& standby, const std::string& agent) {
    WorkerCommand command =
        worker_command(options, agent, absl::StrCat("standby-", -standby.number, ".log"));
    command.arguments.push_back("--standby");
    for (const Rank role : standby.roles)
      command.arguments.insert(command.arguments.end(), {"--for", absl::StrCat(role.value)});
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
  app.add_option("--keys", options.keys, "the job's keys, for an address of a network")
      ->type_name("DIR");
  app.add_option("--life", options.life, "how many controllers the job had before this one")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--term", options.term.number, "the run's term of the output folder")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--term-owner", options.term.owner, "whose term it is")->type_name("WHO");
  app.add_option("--term-job", options.term.job, "the job's name in it")->type_name("NAME");
  app.add_option("--term-host", options.term.hosts_before, "terms that the job had before")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
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
  app.add_option("--keys", options.keys, "the job's keys, for a controller elsewhere")
      ->type_name("DIR");
  app.add_option("--address", options.address,
                 "where to listen for workers (default: in a private folder)")
      ->type_name("unix:PATH");
  app.add_option("--secret", options.secret, "file with the job's secret, for the workers")
      ->type_name("FILE");
  app.add_option("--kept-fd", options.kept_fd, "descriptor that every worker keeps open")
      ->type_name("FD");
  app.add_option("--worker", options.worker, "the workers' program")
      ->type_name("PROGRAM")
      ->required();
  app.add_option("ARGUMENTS", options.worker_arguments, "first arguments of every worker, after --")
      ->type_name("WORD");
}

std::vector<std::string> to_flags(const ControllerProcessOptions& options) {
  std::vector<std::string> flags = {"--config",     options.config,
                                    "--address",    options.address,
                                    "--life",       absl::StrCat(options.life),
                                    "--term",       absl::StrCat(options.term.number),
                                    "--term-owner", options.term.owner,
                                    "--term-job",   options.term.job,
                                    "--term-host",  absl::StrCat(options.term.hosts_before)};
  if (!options.keys.empty()) flags.insert(flags.end(), {"--keys", options.keys});
  return flags;
}

std::vector<std::string> to_flags(const AgentProcessOptions& options) {
  std::vector<std::string> flags = {"--config",     options.config,
                                    "--out",        options.out,
                                    "--node",       absl::StrCat(options.node.value),
                                    "--controller", options.controller,
                                    "--worker",     options.worker};
  if (!options.address.empty()) flags.insert(flags.end(), {"--address", options.address});
  if (options.kept_fd >= 0) flags.insert(flags.end(), {"--kept-fd", absl::StrCat(options.kept_fd)});
  if (!options.keys.empty()) flags.insert(flags.end(), {"--keys", options.keys});
  if (!options.secret.empty()) flags.insert(flags.end(), {"--secret", options.secret});
  flags.push_back("--");
  flags.insert(flags.end(), options.worker_arguments.begin(), options.worker_arguments.end());
  return flags;
}

absl::Status run_controller(const ControllerProcessOptions& options) {
  prctl(PR_SET_NAME, "evermoe.ctl");  // for ps and top
  leave_signals_to_parent();
  configure_log("controller", LogLevel::kInfo);
  ASSIGN_OR_RETURN(const JobConfig config, load_stored_config(options.config));
  ControllerServerOptions own = controller_options(config);
  own.address = options.address;
  ASSIGN_OR_RETURN(own.keys, keys_for(options.address, options.keys));
  own.relay.life = options.life;
  if (!is_local_address(options.address)) {
    own.relay.return_max = kReturnMax;
    own.core.others_wait = kOthersWait;
    own.core.hosts_may_change = true;
    // An agent may have begun a call to where the former host was.
    own.core.find_max = agent_options(config).silence_max + own.core.adoption;
  }
  own.relay.term = options.term;
  ASSIGN_OR_RETURN(const auto server, ControllerServer::start(own, real_clock()));
  log_info(absl::StrCat("controller ", options.life, " listens at ", server->address()));
  const EndJob end = server->run();
  note_end(parent_directory(options.config), options.term, end);
  server->see_off();
  if (end.ok) return absl::OkStatus();
  if (end.bad_input) return InvalidInput(end.reason);
  return end.is_hopeless ? Hopeless(end.reason) : Internal(end.reason);
}

absl::Status run_agent(const AgentProcessOptions& options) {
  const std::string name = absl::StrCat("agent ", options.node.value);
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", name).c_str());
  leave_signals_to_parent();
  configure_log(name, LogLevel::kInfo);
  ASSIGN_OR_RETURN(const JobConfig config, load_stored_config(options.config));
  RETURN_IF_ERROR(real_files().create_directories(worker_logs(options.out, options.node)));
  AgentOptions own;
  own.controller = options.controller;
  ASSIGN_OR_RETURN(own.keys, keys_for(options.controller, options.keys));
  std::unique_ptr<PrivateFolder> folder;
  own.address = options.address;
  if (own.address.empty()) {
    ASSIGN_OR_RETURN(folder, PrivateFolder::make());
    own.address = folder->address("agent");
  }
  own.command = command_of(options, topology_of(config));
  own.standby_command = standby_command_of(options);
  own.kept_fd = options.kept_fd;
  own.core = agent_options(config);
  own.core.node = options.node;
  own.core.pid = ::getpid();
  ASSIGN_OR_RETURN(const auto agent, Agent::start(std::move(own), real_clock()));
  return agent->run();
}

}  // namespace evermoe
