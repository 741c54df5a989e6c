// A whole job in one process, from one seed: every rank is a thread, exactly one of them runs at a
// time, and time is virtual.
//
// This is a SimulatedNetwork (simulated_network.h) whose membership never changes: one thread per
// rank, which knows all others before its body starts. A job in which nobody can ever move ends
// with a Timeout for the waiter with the earliest deadline, at once in real time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "base/fingerprint.h"
#include "comm/simulated/simulated_network.h"
#include "comm/transport/transport.h"

namespace evermoe {

struct InProcessOptions {
  uint64_t seed = 0;

  // Virtual travel time of a message, drawn evenly from 0 to this. Longer: more interleavings.
  absl::Duration delay_max = absl::Milliseconds(1);

  // Virtual time from a death to its discovery by each peer, drawn evenly from 0 to this.
  absl::Duration discovery_max = absl::Milliseconds(5);

  // Larger messages are sent only when they arrive: finds programs that rely on buffering.
  size_t eager_bytes_max = size_t{64} << 10;

  // Whether starting an operation may hand over to another rank, too, and not only waiting.
  bool switch_at_every_call = true;

  // The rank dies at its call number `at_call` (the first is 0): this call and all later ones fail
  // with Cancelled, and its peers get PeerLost.
  struct Kill {
    Rank rank;
    int64_t at_call = 0;
  };
  std::vector<Kill> kills = {};
};

class InProcessCluster {
 public:
  // Called in a thread of its own for each rank. A body that returns without Transport::close() is
  // a process that exits without a goodbye: its peers get PeerLost. The transport is for the thread
  // of the body alone and dies with it.
  using Body = std::function<void(Rank, Transport&)>;

  InProcessCluster(int size, InProcessOptions options);

  // Runs all bodies to their end. To be called once.
  void run(const Body& body);

  // Of everything that happened: calls, deliveries, switches, virtual times and message contents.
  Fingerprint transcript() const { return network_.transcript(); }

  // Virtual time since the start; after run(), how long the job took.
  absl::Duration now() const { return network_.now(); }

  // Transport calls of a rank so far: the range from which to choose Kill::at_call.
  int64_t calls(Rank rank) const { return calls_[static_cast<size_t>(rank.value)]; }

 private:
  class RankTransport;

  // Counts a call of a rank, which dies if this is the one.
  void count_call(Rank rank);

  const InProcessOptions options_;
  SimulatedNetwork network_;
  std::vector<PeerAddress> table_;
  std::vector<ProcessNumber> processes_;  // by rank
  std::vector<int64_t> calls_;            // by rank
};

}  // namespace evermoe
