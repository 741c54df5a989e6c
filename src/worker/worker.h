// The life of one worker process: build the trainer, join the others, train, report. A standby
// warms up first and waits for a role.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "checkpoint/write/folder_term.h"
#include "control/wire/control_client.h"

namespace evermoe {

struct WorkerOptions {
  std::string config_path;
  std::string out;                 // the job's output folder
  std::vector<Rank> warms_up_for;  // roles of a standby; none: every role
  bool is_standby = false;         // it has no role yet: what follows comes with one
  Rank rank;
  View since;         // from which it joins
  int64_t start = 0;  // of the job's starts of workers the how many-th it is; 0: not known
  FolderTerm term;    // the newest of its job when it was started
  std::string agent;  // where its agent listens
  int node = 0;
  std::string secret;  // the file with the job's secret
  // Where a rehearsal is written down (control/folder/job_folder.h), and when the job began, in
  // seconds of the machine's clock; empty: none.
  std::string faults;
  double faults_began = 0;
};

// Runs to the end of training or to a drain (SIGTERM or SIGINT, however often). The error has been
// reported and logged when this returns.
absl::Status run_worker(const WorkerOptions& options);

// The same of a standby, from its warming up on.
absl::Status run_standby(const WorkerOptions& options);

// Tells people why a worker fails, unless it is ok, and closes the client.
absl::Status close_line(ControlClient& client, absl::Status status);

}  // namespace evermoe
