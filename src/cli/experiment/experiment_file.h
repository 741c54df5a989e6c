// What an experiment runs, as TOML: systems x failure processes x seeds of one job. A system is a
// strategy, or the job with any other settings.
//
//   strategies = ["sparse", "none"]   # names of protection.strategy
//   seeds = [1, 2, 3]
//   yardstick_share = 0.5             # steps of a yardstick behind a run; a fifth unless given
//   [model]
//   config = "tiny.toml"              # the job; relative to this file, as `trace` is
//   settings = ["train.steps=200"]    # optional, as --set
//   [[systems]]                       # beside the strategies, or instead of them
//   name = "elastic"
//   settings = ["protection.strategy=gradients", "elastic.enabled=true"]
//   [[failures]]                      # each is one failure process
//   law = "exponential"
//   mtbf_steps = 40                   # mean time between failures of the job, in steps
//   [[failures]]
//   law = "weibull"
//   shape = 0.7
//   mtbf_steps = 40
//   [[failures]]
//   law = "exponential"
//   mtbf_steps = 40
//   lost_together = 2                 # nodes that a failure takes at once; unless given one worker
//   [[failures]]
//   law = "exponential"
//   mtbf_steps = 40
//   lost = "node"                     # a node is gone; unless given "worker": processes are killed
//   back_after_steps = 60             # until then; unless given for good
//   [[failures]]
//   trace = "failures.csv"            # planner/failures/failure_trace.h
//   mtbf_steps = 40                   # the trace's time is scaled to this mean; 40 unless given
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/files.h"

namespace evermoe {

inline constexpr int64_t kExperimentBytesMax = 1 << 20;
inline constexpr int64_t kExperimentListMax = 1000;  // entries of each list
inline constexpr double kTraceMtbfSteps = 40;
inline constexpr int kLostTogetherMax = 64;

struct FailureProcess {
  // "exponential-40", "weibull-0.7-40", "trace-NAME-40", each with "-2-nodes" behind it where so
  // many are lost together, "-gone" where they are gone, and "-back-60" where they come back;
  // unique in a file.
  std::string name;
  std::string trace;  // empty: Weibull of this shape; 1 is exponential
  double shape = 1;
  double mtbf_steps = kTraceMtbfSteps;
  int lost_together = 1;        // 1: a worker; else nodes, so many at one moment
  bool are_gone = false;        // nodes are lost as machines are, not only the processes on them
  double back_after_steps = 0;  // those that are gone; 0: they stay away, or until the trace says
};

// One of those that an experiment compares.
struct ComparedSystem {
  std::string name;  // of a strategy, or any other; unique in a file
  std::vector<std::string> settings;
  bool is_strategy = false;
};

struct Experiment {
  std::string config;
  std::vector<std::string> settings;
  std::vector<ComparedSystem> systems;  // strategies first
  std::vector<FailureProcess> failures;
  std::vector<uint64_t> seeds;
  double yardstick_share = 0.2;  // of the job's steps, that a yardstick behind a run has
};

// InvalidInput with one line: place, key, what was found and what is allowed. Looks neither at the
// job's configuration nor at traces. `path` names the text, and files in it are relative to it.
absl::StatusOr<Experiment> parse_experiment(const std::string& text, const std::string& path);

}  // namespace evermoe
