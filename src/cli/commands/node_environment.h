// Which node this process is, from flags or from the launcher that has started it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace evermoe {

struct NodePlace {
  int node = -1;       // -1: from the environment
  int nodes = 0;       // 0: likewise
  std::string join;    // HOST:PORT of node 0; empty: likewise
  std::string listen;  // where node 0 listens; empty: at `join`
};

// What flags left open is taken from the environment of torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT), Slurm (SLURM_PROCID, SLURM_NTASKS) or Open MPI (OMPI_COMM_WORLD_RANK, _SIZE). A
// single node needs no address. InvalidInput says which variable or flag is missing.
absl::Status complete_from_environment(NodePlace& place);

}  // namespace evermoe
