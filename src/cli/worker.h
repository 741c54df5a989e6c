// The life of one worker process: find the others, build the trainer, resume, train, report.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"

namespace evermoe {

struct WorkerOptions {
  std::string config_path;
  std::vector<std::string> settings;  // key=value, applied over the file
  std::string out;                    // the job's output directory
  Rank rank;
  int world_size = 0;
  std::string rendezvous;         // host:port
  bool serve_rendezvous = false;  // this process (rank 0) runs the server at that port
  // Set for a member of a protected job: where its agent listens, and the view from which it joins.
  std::string agent;
  View since;
  int node = 0;
  // Where a rehearsal is written down (cluster/job_folder.h), and when the job began, in seconds of the
  // machine's clock; empty: none.
  std::string faults;
  double faults_began = 0;
  double join_seconds = 120;      // how long to wait for the other ranks to come
};

// What flags left open is taken from the environment of torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT), Slurm (SLURM_PROCID, SLURM_NTASKS) or Open MPI (OMPI_COMM_WORLD_RANK, _SIZE).
// InvalidInput says which variable or flag is missing.
absl::Status complete_from_environment(WorkerOptions& options);

// Runs to the end of training or to a drain (SIGTERM or SIGINT; a second one ends the process at
// once). The error has been reported and logged when this returns.
absl::Status run_worker(const WorkerOptions& options);

}  // namespace evermoe
