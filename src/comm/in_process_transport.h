// A whole job in one process, from one seed: every rank is a thread, exactly one of them runs at a
// time, and time is virtual.
//
// The running rank can change only inside transport calls. Who runs next, how long each message
// travels and when a death is noticed come from the seed, so a run repeats exactly: same seed, same
// interleaving, same transcript. Computing takes no virtual time. When all ranks wait, the clock
// jumps to the next delivery or deadline; so a job in which nobody can ever move ends with a Timeout
// for the waiter with the earliest deadline, at once in real time.
//
// Messages of one pair and one tag stay in order; messages of different tags may overtake each
// other, as the contract in transport.h allows. Messages of up to `eager_bytes_max` are sent at once,
// larger ones when they arrive. What a rank has sent before it dies is still delivered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "base/fingerprint.h"
#include "comm/transport.h"

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
  // Called in a thread of its own for each rank. A body that returns without Transport::close() is a
  // process that exits without a goodbye: its peers get PeerLost. The transport is for the thread of
  // the body alone and dies with it.
  using Body = std::function<void(Rank, Transport&)>;

  InProcessCluster(int size, InProcessOptions options);
  ~InProcessCluster();

  // Runs all bodies to their end. To be called once.
  void run(const Body& body);

  // Of everything that happened: calls, deliveries, switches, virtual times and message contents.
  Fingerprint transcript() const;

  // Virtual time since the start; after run(), how long the job took.
  absl::Duration now() const;

  // Transport calls of a rank so far: the range from which to choose Kill::at_call.
  int64_t calls(Rank rank) const;

 private:
  class Scheduler;
  class RankTransport;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace evermoe
