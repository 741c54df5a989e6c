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
// Membership changes: set_peers() exchanges the process that plays a rank for another one. A
// process joins in a view, and all its messages carry that view or a later one; so whoever has
// revoked the views before can never take a message of the former process for one of the new.
//
// Connections are made when they are first needed: the first operation of either process with the
// other one asks for it, and operations wait for it as they wait for anything. So a job has the
// connections that its traffic names, not one for each pair of ranks.
//
// Who knows beforehand whom it will need can ask for it beforehand, too (connect()).
//
// Service messages are the other kind of message: from anyone, of any length, not announced by a
// receive. They carry requests and copies between the service threads of the processes.
//
// Threads: every method may be called from any thread. The calling thread drives progress itself
// while it waits (no hop through another thread), asleep in the kernel whenever nothing moves:
// there are more workers than cores. Messages too large for what the kernel buffers also move while
// nobody waits, as long as their receive is posted; that costs no thread which is awake without
// need.
//
// Errors: PeerLost (names the rank; within 100 ms of the death of its process), Timeout (names the
// rank), Cancelled (cancel_all, or the view was revoked). After an error of one peer the operations
// with other peers go on working.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Communicators of these groups end together: the whole job's, or those inside one stage.
struct GroupRange {
  uint16_t first = 0;
  uint16_t last = 0;
  bool contains(uint16_t group) const { return first <= group && group <= last; }
  friend bool operator==(const GroupRange&, const GroupRange&) = default;
};

// Tags of this group name service messages. The views of service messages mean nothing to the
// transport: it neither revokes nor drops them.
inline constexpr uint16_t kServiceGroup = 4094;
inline constexpr GroupRange kAllGroups{0, kServiceGroup - 1};

// Where each has connections of its own (UCX), one may be there without the other.
enum class Traffic : uint8_t { kMessages, kServiceMessages };

// Bytes of a service message; not zeroed before they are filled.
struct ServiceMessage {
  Rank from;
  Tag tag;
  size_t size = 0;
  std::unique_ptr<std::byte[]> bytes;
  std::span<const std::byte> span() const { return {bytes.get(), size}; }
};

// Where the process is that plays a rank.
struct PeerAddress {
  std::string address;  // TransportListener::address() of the process
  View since;           // the view in which it joined
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
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

  // Blocks until the operation is done, fails, or `timeout` has passed. Whatever the result, its
  // buffer is the caller's again. A send given back unfinished arrives whole or not at all.
  virtual absl::Status wait(std::unique_ptr<TransportOperation> operation,
                            absl::Duration timeout) = 0;

  // True if wait() would return at once. Drives progress, never blocks.
  virtual bool done(TransportOperation& operation) = 0;

  // How many messages to other ranks, service messages left out, are on their way from here: the
  // line is used by more than what the kernel buffers. 0 where nobody counts.
  virtual int sends_under_way() const { return 0; }

  // How many connections with other processes this one has made so far, lost ones among them. Of
  // the two ends of a connection the younger one counts it: who joined in the later view, or has
  // the higher rank. UCX has one for each kind of traffic. 0 where nobody counts.
  virtual int64_t connections_opened() const { return 0; }

  // Takes the oldest service message that has arrived, or waits for one. Service messages of one
  // sender come in the order sent; start_send() with kServiceGroup sends one, also to oneself.
  // Timeout (accusing nobody) if none comes in time; Cancelled after close(). Service messages of a
  // lost peer that have arrived stay. A peer may have kServiceBytesMax waiting here, all together
  // kServiceBytesOfAllMax; beyond that sends wait (of a peer that has none here one of any size may
  // always come). Service messages to oneself always find room. While this process waits for a
  // service message of its own to be taken, more of the others' may be let in: two who send before
  // they receive get through. One thread at a time receives service messages.
  virtual absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) = 0;
  static constexpr size_t kServiceBytesMax = size_t{64} << 20;
  static constexpr size_t kServiceBytesOfAllMax = size_t{128} << 20;

  // Fails every pending and every later operation of `groups` in views up to and including `view`
  // with `reason`, in all threads, and drops the messages of those that nobody received. Ranges
  // given to one transport are equal or disjoint.
  virtual void revoke(GroupRange groups, View view, absl::Status reason) = 0;
  void revoke(View view, absl::Status reason) { revoke(kAllGroups, view, std::move(reason)); }

  // Says which process plays each rank (one entry per rank), and never blocks. Two processes can
  // connect once both have named each other with tables that agree about both; until then
  // operations with the other one wait. Pairs that are connected already are not touched; the
  // former process of a changed entry is dropped with the messages of it that nobody has received,
  // and what is pending with it fails with PeerLost. A process whose entry has got a later `since`
  // (of its own entry nothing else is looked at) joins again: everybody connects with it anew. An
  // empty address stands for nobody: operations with that rank fail with PeerLost, as with ranks
  // that have not been named yet. InvalidInput for addresses that cannot be reached this way;
  // Cancelled after close(). One thread at a time calls it; others may use the transport meanwhile.
  //
  // What is wrong with a process shows in operations with it: PeerLost if it is dead or has left
  // before a connection was made, InvalidInput if it believes in another number of ranks, Timeout
  // if it does not answer, because it is stopped or has not named this one.
  virtual absl::Status set_peers(const std::vector<PeerAddress>& table) = 0;

  // Asks for a connection with the process of `peer`, as an operation with it would, and returns at
  // once. Both have to name each other, now or later; what is wrong with the process shows in
  // operations.
  virtual void connect(Rank peer, Traffic traffic) = 0;
  // Whether there is such a connection, or was one that is lost, with the process of `peer`.
  virtual bool is_connected(Rank peer, Traffic traffic) const = 0;

  // Gives up the connection with the process of `peer`, if there is one: both of them see a lost
  // peer. For rehearsing faults.
  virtual void cut(Rank peer) = 0;

  // Says goodbye to those who are connected with us, so that our exit is no accusation: their
  // pending operations with us fail with Cancelled instead of PeerLost. Nothing may be started
  // afterwards.
  virtual void close() = 0;
};

}  // namespace evermoe
