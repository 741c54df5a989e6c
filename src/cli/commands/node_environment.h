// Which node this process is, from flags or from the launcher that has started it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace evermoe {

inline constexpr int kControllerPort = 29600;  // unless somebody says another one

struct NodePlace {
  int node = -1;       // -1: from the environment
  int nodes = 0;       // 0: likewise
  std::string join;    // HOST:PORT of node 0; empty: likewise
  std::string listen;  // where node 0 listens; empty: at `join`
  // Of an elastic job, to which others may come than those that it begins with.
  bool may_come_later = false;
};

// What flags left open is taken from the launcher's variables, the first that is set:
//
//   node    RANK (torchrun), OMPI_COMM_WORLD_RANK (mpirun), SLURM_NODEID, PMIX_RANK,
//           JOB_COMPLETION_INDEX (a Kubernetes Job), the end of a StatefulSet's host name
//   nodes   WORLD_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_STEP_NUM_NODES, SLURM_NNODES
//   join    MASTER_ADDR:MASTER_PORT; the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST;
//           this machine if mpirun has started all nodes here. The port is 29600 unless MASTER_PORT
//           says another, one more than that under torchrun, which listens there itself.
//
// A single node needs no address. InvalidInput says which variable or flag is missing, or that
// Slurm has started several tasks on a machine: each would be the same node.
absl::Status complete_from_environment(NodePlace& place);

// HOST:PORT, with a port from 1 to 65535. InvalidInput otherwise, which names `what`.
absl::Status check_address(const std::string& what, const std::string& address);

// The same with other variables: a variable's value, empty for one that is not set.
using Environment = std::function<std::string(const char* variable)>;
absl::Status complete_from(const Environment& environment, const std::string& host_name,
                           NodePlace& place);

}  // namespace evermoe
