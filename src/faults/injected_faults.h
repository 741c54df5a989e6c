// Which faults of a script have fired, kept in a file: every process of a job reads it when it
// begins.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

// Beside the script.
inline std::string injected_faults_path(const std::string& script) { return script + ".injected"; }

// Indices, one per line; a file that is not there means none. A last line without its end is one
// whose fault was about to fire and did not. InvalidInput for anything else.
absl::StatusOr<std::set<int>> read_injected_faults(const std::string& path);

// Returns when it is on disk. Any number of processes may write at once.
absl::Status add_injected_fault(const std::string& path, int index);

}  // namespace evermoe
