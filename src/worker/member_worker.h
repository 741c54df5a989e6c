// A worker: a member that an agent has started (recovery/member/member.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "config/job_config.h"
#include "control/wire/control_client.h"
#include "data/token_source.h"
#include "protection/snapshots/chunk.h"
#include "worker/worker.h"
#include "worker/worker_device.h"

namespace evermoe {

// Until the job is over or this process has to end. `drain_requested` is asked once a step.
// Closes the client.
struct Inheritance {
  std::optional<WorkerDevice> device;  // that this process has taken already
  std::vector<Chunk> chunks;           // that it was given for this role (joiner_process.h)
};
absl::Status run_member(const WorkerOptions& options, const JobConfig& config,
                        const TokenParts& tokens, const std::function<bool()>& drain_requested,
                        ControlClient& client, Inheritance inherited);

// Tells people why the worker fails, unless it is ok, and closes the client.
absl::Status close_line(ControlClient& client, absl::Status status);

}  // namespace evermoe
