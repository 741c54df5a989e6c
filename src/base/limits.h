// Limits of a job that several modules have to keep alike. What a machine can carry is asked when a
// job starts.
#pragma once

namespace evermoe {

// Roles of a job, each a rank: what messages can name and what a configuration may ask for.
inline constexpr int kJobRanksMax = 4096;
// Seats of a job's transports: one for the process that plays a role, and one for the process that
// is about to (comm/transport/seated_transport.h).
inline constexpr int kJobSeatsMax = 2 * kJobRanksMax;
// Nodes; also spare ones, and racks.
inline constexpr int kJobNodesMax = 4096;

}  // namespace evermoe
