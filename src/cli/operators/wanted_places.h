// The file of `evermoe move --rebalance`: which node is to play which role.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "control/controller/controller_interface.h"
#include "control/controller/status/job_status.h"

namespace evermoe {

inline constexpr int64_t kPlacesBytesMax = 4 << 20;

// `text` is TOML: `"1.0" = 2` for each role that is to be on a node; the others stay. The wish
// names those that are elsewhere now, in the order of their ranks; none if all are in place.
// InvalidInput, beginning with `origin`: it is no such text, or names no role of this job.
absl::StatusOr<MoveWanted> wanted_places(const std::string& text, const std::string& origin,
                                         const JobStatus& status);

}  // namespace evermoe
