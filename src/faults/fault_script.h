// Fault scripts: which faults a job is given on purpose, as TOML.
//
//   [[fault]]
//   kind = "kill_worker"        # kill_node stop_worker cut_connection corrupt_copy corrupt_state
//                               # kill_controller
//   stage = 1                   # whom: of a worker; kill_node has `node` instead, cut_connection
//   lane = 0                    #   `other_stage` and `other_lane` besides
//   step = 5                    # when: the step under way, 1 is the first
//   point = "step/before_verdict"
//
// Instead of `step`, or besides: `in_recovery` (only while the n-th recovery of the job is under
// way, counted from 1). `point` is one of faults/fault_points.h; without it a fault is injected at
// "step/forward", one with `in_recovery` at "recovery/stopped". `reached` (0 unless given) is how
// many times the worker passes the point under these conditions before the fault is injected.
// Points of captures, copies and saves are passed beside the step: `step` is the first one that
// counts. A fault by time has `after_seconds` and none of these.
//
// The point is passed by the worker that the fault names; of kill_node any worker of the node; of
// kill_controller the worker of `stage` and `lane`, stage 0 and lane 0 unless given. corrupt_state
// changes a bit of the first operator that is up to date; only at the points of "step/" and
// "catch_up/", which the thread that trains passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "env/files.h"
#include "faults/fault.h"

namespace evermoe {

inline constexpr int64_t kFaultScriptBytesMax = 1 << 20;
inline constexpr int64_t kFaultsMax = 1000;

// What a script may name. REQUIRES: at least one stage, every width and `nodes` >= 1.
struct FaultLimits {
  std::vector<int> lanes;  // of each stage
  int nodes = 1;
};

// InvalidInput with one line that says origin, line, key, what was found and what is allowed.
absl::StatusOr<FaultScript> parse_fault_script(const std::string& text, const std::string& origin,
                                               const FaultLimits& limits);
// The same for a file; one that cannot be read is InvalidInput too.
absl::StatusOr<FaultScript> load_fault_script(Files& files, const std::string& path,
                                              const FaultLimits& limits);

// The script as TOML that parses back to an equal one.
std::string to_toml(const FaultScript& script);

}  // namespace evermoe
