// The controller and the agents of a job as programs: their options as command lines, and their main
// functions.
//
//   PROGRAM controller --address 127.0.0.1:7070 --lanes 2,2 --nodes 4 --spares 1
//   PROGRAM agent --node 0 --controller 127.0.0.1:7070 --lanes 2,2 --logs OUT/logs --worker PROGRAM -- worker --out OUT
//
// Every flag is a name and a value; times are in seconds.
//
// controller: --address, --life, --lanes (of each stage, "2,2"), --nodes, --spares, --copies, --copy-level (worker,
//   node, rack or switch: copies go elsewhere), --racks, --protected
//   (0 or 1), --restart-all (0 or 1), --adoption, --grace, --start-max, --report-max, --silence-max,
//   --step-max, --load-max, --probe-min, --losses-max, --restarts-max, --backoff, --backoff-max, --patience,
//   --steps, --evaluate-every, --checkpoint-every, --beat, --agent-silence-max
// agent: --node, --controller, --address, --lanes, --logs (a folder), --kept-fd, --beat, --silence-max,
//   --registering-max, --away-max, --worker (a program); after "--" the first arguments of a worker, which
//   then gets "--rank R --since VIEW --agent ADDRESS --node N"
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/agent.h"
#include "cluster/controller_server.h"

namespace evermoe {

struct AgentProcessOptions {
  AgentOptions agent;  // `command` is made of the rest
  std::vector<int> lanes = {1};
  std::string logs;    // an existing folder: worker-<stage>.<lane>.log
  std::string worker;  // program
  std::vector<std::string> worker_arguments;
};

std::vector<std::string> to_flags(const ControllerServerOptions& options);
std::vector<std::string> to_flags(const AgentProcessOptions& options);
// InvalidInput names the flag: unknown, without a value, or with one that is none. What is not given has
// its default.
absl::StatusOr<ControllerServerOptions> parse_controller_flags(const std::vector<std::string>& flags);
absl::StatusOr<AgentProcessOptions> parse_agent_flags(const std::vector<std::string>& flags);

// How the agent starts its workers.
std::function<WorkerCommand(Rank, View, const std::string& agent)> command_of(const AgentProcessOptions& options);

// Until the job ends. Ok, InvalidInput (the user's input is wrong) or Internal, as it ended.
absl::Status run_controller(const ControllerServerOptions& options);
// Until the job ends: Ok, however. Timeout if no controller was there for too long.
absl::Status run_agent(const AgentProcessOptions& options);

}  // namespace evermoe
