// Limits of a job that several modules have to keep alike. What a machine can carry is asked when a
// job starts.
#pragma once

namespace evermoe {

// Roles of a job, each a rank: what messages can name and what a configuration may ask for.
inline constexpr int kJobRanksMax = 4096;
// Nodes; also spare ones, and racks.
inline constexpr int kJobNodesMax = 4096;

}  // namespace evermoe
