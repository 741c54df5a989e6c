// Where the workers' program is: `evermoe-worker`, the one that links libtorch.
//
// Looked for, in this order:
//   1. the path that --worker gives
//   2. the path in the environment variable EVERMOE_WORKER
//   3. evermoe-worker beside this program (a build folder, or bin/ of an installation)
//   4. ../libexec/evermoe/evermoe-worker from this program (an installation)
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace evermoe {

struct WorkerSearch {
  std::string option;       // --worker; empty: not given
  std::string environment;  // EVERMOE_WORKER; empty: not set
  std::string own_folder;   // of this program
};

// The first place that `is_program`. A place that was named by hand is the only one then.
// InvalidInput, one line, says where it was looked for and how to name another place.
absl::StatusOr<std::string> find_worker(const WorkerSearch& search,
                                        const std::function<bool(const std::string&)>& is_program);

// The same on this machine.
absl::StatusOr<std::string> find_worker(const std::string& option);

// What the program writes on standard output, at most kWorkerAnswerBytesMax, until it ends.
// Internal if it fails, Timeout if it takes longer than kWorkerPatience.
absl::StatusOr<std::string> ask_worker(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment = {});

inline constexpr size_t kWorkerAnswerBytesMax = 4096;  // fits every pipe
inline constexpr absl::Duration kWorkerPatience = absl::Minutes(1);

}  // namespace evermoe
