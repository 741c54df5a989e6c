// The controller and the agents of a job as programs: their command lines, and their main
// functions.
//
//   PROGRAM controller --config OUT/config.toml --address unix:/tmp/job/controller
//   PROGRAM agent --config OUT/config.toml --out OUT --node 0 --controller unix:/tmp/job/controller
//     --worker WORKER -- train ...
//
// What the job's configuration says is not repeated in them (control_options.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/agent/agent.h"
#include "control/controller/controller_interface.h"
#include "parallel/topology.h"

namespace CLI {
class App;
}

namespace evermoe {

struct ControllerProcessOptions {
  std::string config;                   // the job's stored configuration
  std::string address = "127.0.0.1:0";  // ControlListener::start()
  int64_t life = 0;                     // how many controllers the job had before this one
  FolderTerm term;                      // of the run that starts it
  std::string keys;                     // their folder, for an address of a network; else empty
};

struct AgentProcessOptions {
  std::string config;  // the job's stored configuration
  std::string out;     // the job's folder
  Node node;
  std::string controller;  // where it listens
  std::string keys;        // their folder, if that is of a network; else empty
  // For the workers: ControlListener::start(), inside the machine. Empty: in a folder of its own.
  std::string address;
  std::string secret;  // the file with the job's secret, for the workers
  int kept_fd = -1;    // held open by every worker; -1: none
  std::string worker;  // program
  // Of every worker; followed by "--agent ADDRESS --node N" and "--rank R --since VIEW --start S"
  // with the term, or "--standby".
  std::vector<std::string> worker_arguments;
};

// Declares the flags, with their help; parsing `app` fills `options`, which outlives it.
void add_flags(CLI::App& app, ControllerProcessOptions& options);
void add_flags(CLI::App& app, AgentProcessOptions& options);
// The flags that parse back to these options.
std::vector<std::string> to_flags(const ControllerProcessOptions& options);
std::vector<std::string> to_flags(const AgentProcessOptions& options);

// Where the workers of a node write: a folder of its own, because a role may move to another
// machine while its former process still writes, and appending is not atomic on network file
// systems.
std::string worker_logs(const std::string& out, Node node);
// How an agent of these options starts the worker of a role, and a standby.
std::function<WorkerCommand(const SpawnWorker&, const std::string& agent)> command_of(
    const AgentProcessOptions& options, const Topology& topology);
std::function<WorkerCommand(const SpawnStandby&, const std::string& agent)> standby_command_of(
    const AgentProcessOptions& options);

// Until the job ends. Ok, InvalidInput (the user's input is wrong) or Internal, as it ended.
absl::Status run_controller(const ControllerProcessOptions& options);
// Until the job ends: Ok, however. Timeout if no controller was there for too long.
absl::Status run_agent(const AgentProcessOptions& options);

}  // namespace evermoe
