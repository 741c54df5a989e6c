// What a job's configuration means for the processes of its control plane. The one place where keys
// of OUT/config.toml become options of the controller, the agents and the run.
//
// Signs of life, all from protection.heartbeat_seconds (h):
//
//   who says it            to whom           every  is taken for lost after a silence of
//   worker                 its agent           h     6 h, by the controller
//   agent                  controller          h    20 h   (a whole node goes with it, so more
//                          patience)
//   controller             agents, the run     h    20 h   (its end is noticed at once; this is for
//                          one that hangs)
//
// An agent's sign of life tells of the signs that its workers gave since the one before: one
// message for each node and h, however many roles it plays. What the controller hears of a worker
// is up to h older for that, and the limit runs from when it is heard to when the agent is: nobody
// is lost earlier for it, and one that hangs is found up to h later.
//
// No limit is below a second: a busy machine keeps a process from running for so long now and then.
// Who has stood still itself for longer than 4 h, at least 2 s, takes nobody for lost because of it
// (stall_adjusted_clock.h). Where timers are later than on a busy machine limits grow by eight
// times as much (stalls/lateness.h), and time in which a worker was ready and got no processor does
// not count (stalls/starvation.h); no limit grows to more than kStallFactorMax times itself.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "config/job_config.h"
#include "control/agent/agent_core.h"
#include "control/controller/controller_server.h"

namespace evermoe {

struct SignsOfLife {
  absl::Duration beat;        // between two signs of life of any process
  absl::Duration worker_max;  // silence after which the controller replaces a worker
  absl::Duration node_max;    // silence after which the controller gives up an agent and its node
  absl::Duration controller_max;  // silence after which agents and the run give up a controller
  absl::Duration standstill;      // AgentCoreOptions::own_standstill
};
SignsOfLife signs_of_life(const ProtectionConfig& protection);

// All but address and life.
ControllerServerOptions controller_options(const JobConfig& config);
// All but node and pid.
AgentCoreOptions agent_options(const JobConfig& config);

// A job's stored configuration, OUT/config.toml, without a look at the data: only workers read
// that.
absl::StatusOr<JobConfig> load_stored_config(const std::string& path);

}  // namespace evermoe
