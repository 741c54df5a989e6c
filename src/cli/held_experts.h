// Where experts are now: what `evermoe place --json` wrote before, less the nodes that failed
// since.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/reports/place_report.h"
#include "env/files.h"

namespace evermoe {

// The nodes of the file at `path`, in its order, without those that `lost` numbers; nodes that
// have just joined follow, `nodes` in all. InvalidInput with one line for a file without
// "experts_of_nodes", an expert that is not below `experts`, a lost node that is not in the file,
// or more live nodes than `nodes`.
absl::StatusOr<HeldExperts> load_held_experts(Files& files, const std::string& path,
                                              const std::vector<int>& lost, int nodes, int experts);

}  // namespace evermoe
