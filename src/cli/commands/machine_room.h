// Whether this machine has room for all processes of a job, before any of them starts.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "config/job_config.h"

namespace evermoe {

struct MachineRoom {
  int64_t memory_bytes = 0;  // available now
  int64_t threads = 0;       // that may run at once
  int cores = 1;
  int64_t address_bytes = std::numeric_limits<int64_t>::max();  // of one process (ulimit -v)
};

// This machine's, as its kernel and this process's control group limit it.
MachineRoom machine_room();

// The least memory that one node of the job takes, with its agent and the workers that it begins
// with. REQUIRES: a valid configuration.
int64_t least_memory_of_node(const JobConfig& config);

// InvalidInput with the arithmetic if the job's controller, agents (of nodes and spares) and
// workers need more memory, address space or threads than there are, or would take longer than a
// minute to start. Counts the least that they need: a job that passes may still be too large. Pure.
// REQUIRES: a valid configuration.
absl::Status check_room(const JobConfig& config, const MachineRoom& room);

}  // namespace evermoe
