// Upper limits of a job, whatever the machine: what a machine can carry is asked when a job starts.
#pragma once

#include <cstdint>

namespace evermoe {

inline constexpr int64_t kWorldMax = 4096;  // workers
inline constexpr int64_t kNodesMax = 4096;  // nodes, and spare ones, and racks

}  // namespace evermoe
