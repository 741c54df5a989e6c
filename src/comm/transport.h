// Moves tagged messages between the processes of a job and reports lost peers.
//
// Point to point only: collectives are built on top (communicator.h), because only then can every
// pending call be cancelled from another thread and a single dead peer be named.
//
// Messages between one pair with one tag are received in the order sent. A receive names its
// sender, its tag and its exact length; the length not matching is a bug of the program (CHECK).
// A message may arrive before its receive is posted: it is kept, up to a named limit of the
// implementation; beyond that the sender waits.
//
// Threads: every method may be called from any thread. The calling thread drives progress itself
// while it waits (no hop through another thread), asleep in the kernel whenever nothing moves:
// there are more workers than cores.
//
// Errors: PeerLost (names the rank; within 100 ms of the death of its process), Timeout (names the
// rank), Cancelled (cancel_all, or the view was revoked). After an error of one peer the operations
// with other peers go on working.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

// Names a stream of messages between two ranks.
struct Tag {
  View view;             // messages of another view are never matched
  uint16_t group = 0;    // which communicator (0 is the world); at most 4094
  uint32_t purpose = 0;  // chosen by the communicator: kind of call and sequence number; 31 bits
  friend auto operator<=>(const Tag&, const Tag&) = default;
};

// One send or receive in flight. Obtained from a Transport and given back to it by wait().
class TransportOperation {
 public:
  virtual ~TransportOperation() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Starts sending `bytes` to `to`, and never blocks. The bytes must stay valid and unchanged until
  // wait() has returned for this operation. Sending to oneself is allowed.
  virtual std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                         std::span<const std::byte> bytes) = 0;

  // Starts receiving exactly `into.size()` bytes from `from`. The memory belongs to the transport
  // until wait() has returned for this operation.
  virtual std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                            std::span<std::byte> into) = 0;

  // Blocks until the operation is done, fails, or `timeout` has passed. Whatever the result, the
  // transport has let go of the operation's buffer when this returns.
  virtual absl::Status wait(std::unique_ptr<TransportOperation> operation,
                            absl::Duration timeout) = 0;

  // True if wait() would return at once. Drives progress, never blocks.
  virtual bool done(TransportOperation& operation) = 0;

  // Fails every pending and every later operation of views up to and including `view` with
  // `reason`, in all threads, and drops the messages of those views that nobody received.
  virtual void revoke(View view, absl::Status reason) = 0;

  // Says goodbye to the peers, so that our exit is no accusation: their pending operations with us
  // fail with Cancelled instead of PeerLost. Nothing may be started afterwards.
  virtual void close() = 0;
};

}  // namespace evermoe
