// Where a process is found that is about to take a role. Transports of a job have two seats for
// each role: its rank, of the process that plays it, and one of the process that is to play it
// next, the joiner, which so can be given what the role has while the former one, the leaver, still
// plays it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "comm/transport/transport.h"

namespace evermoe {

inline int seats_of_job(int world_size) { return 2 * world_size; }
inline Rank joiner_seat(Rank role, int world_size) { return Rank(role.value + world_size); }

// For Transport::set_peers(): `table` has the ranks of a job. Of joiners only that of `role` is
// named, if there is one. `seats`: Transport::size().
inline std::vector<PeerAddress> with_joiner(std::vector<PeerAddress> table, int seats, Rank role,
                                            const std::optional<PeerAddress>& joiner) {
  const auto world_size = static_cast<int>(table.size());
  table.resize(static_cast<size_t>(seats));
  if (joiner) table.at(static_cast<size_t>(joiner_seat(role, world_size).value)) = *joiner;
  return table;
}

}  // namespace evermoe
