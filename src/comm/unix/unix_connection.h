// One AF_UNIX stream to one peer: frames out, frames in.
//
// Writing: a send is attempted at once; what the kernel does not take is queued in order.
//
// Reading: payload goes straight into the posted receive, or into the service message that it is. A
// message that nobody has posted a receive for is kept on the heap if it is small (kEagerBytesMax)
// and the peer has less than kKeptBytesMax kept already. Otherwise it is *held*, and so is a
// service message that the box has no room for: its payload stays in the kernel and the sender
// waits, because that costs no memory and no copy.
//
// A hold ends when the receive is posted or the box has room. It also ends, into the heap, when
// holding on could deadlock: a receive is posted for a message behind it, a thread of this process
// waits for a send on this channel (its peer may in turn wait for us to read), or the peer has hung
// up and has to be read to its end. So a rank that waits never refuses to read what it waits for,
// and two ranks that both send before they receive get through. Only in these cases may more than
// the limits be kept, up to kForcedBytesMax: there the peer is given up with NoCapacity.
//
// Not synchronised: the channel's mutex guards it. It finishes operations, never deletes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "comm/channel/inbox.h"
#include "comm/channel/pending_operation.h"
#include "comm/channel/revocations.h"
#include "comm/channel/service_inbox.h"
#include "comm/transport/socket.h"
#include "comm/unix/unix_outbox.h"

namespace evermoe {

class UnixConnection;

// What the connections of one channel share.
struct UnixChannelState {
  const Revocations& revocations;
  const int& send_waiters;                    // threads that wait for a send
  ServiceInbox* service_messages;             // null: none come on this channel
  absl::flat_hash_set<UnixConnection*> held;  // connections with a message that is held
};

class UnixConnection {
 public:
  static constexpr size_t kEagerBytesMax = size_t{64} << 10;
  static constexpr size_t kKeptBytesMax = size_t{64} << 20;
  static constexpr size_t kForcedBytesMax = size_t{4} << 30;

  // `channel` must outlive this. `number` tells the connections of a channel apart, also former
  // ones.
  UnixConnection(Rank peer, FileDescriptor socket, uint32_t number, UnixChannelState& channel);
  ~UnixConnection();

  // Of tags that are not revoked.
  void start_send(PendingOperation* send);
  void start_receive(PendingOperation* receive);

  // Takes an unfinished operation back; what was already on the way goes on from a copy (send) or
  // is thrown away (receive).
  void withdraw(PendingOperation* operation);

  // The channel's revocations have got a new entry.
  void revoke(GroupRange groups, View last, const absl::Status& reason);

  // What epoll reported. After a failure the socket is closed and every operation has failed.
  void on_readable();
  void on_writable();
  void on_hang_up();

  // Ends a hold whose reason has gone or that has become dangerous (see above).
  void reconsider_hold();

  // Queues the goodbye frame. Nothing may be sent after it.
  void say_goodbye();

  // Closes the socket and fails everything pending and later with `reason`.
  void fail(const absl::Status& reason);

  bool wants_read() const { return !is_lost() && !is_held(); }
  bool wants_write() const { return !is_lost() && !writing_failed_ && !outbox_.empty(); }
  bool is_lost() const { return !lost_.ok(); }
  const absl::Status& lost() const { return lost_; }
  int fd() const { return socket_.get(); }
  Rank peer() const { return peer_; }
  uint32_t number() const { return number_; }

  uint32_t armed_events = 0;  // what the channel's epoll watches this socket for

 private:
  // The message whose header has been read and whose payload has not.
  struct Incoming {
    enum class Fate { kReceive, kKeep, kService, kDiscard, kHold };
    Fate fate = Fate::kDiscard;
    FrameHeader header;
    size_t arrived = 0;
    PendingOperation* receive = nullptr;
    std::unique_ptr<KeptMessage> kept;
    ServiceMessage service_message;

    size_t missing() const { return header.length - arrived; }
    bool is_service_message() const { return header.tag.group == kServiceGroup; }
    std::byte* destination() const;
  };

  bool is_held() const { return incoming_ && incoming_->fate == Incoming::Fate::kHold; }
  size_t staged() const { return staging_end_ - staging_begin_; }

  // Goes on with what was held: parses what is staged behind it.
  void resume();
  void flush();
  // One recvmsg. True if it filled everything offered, so that more is likely there.
  bool read_once();
  void make_room_for_reading();
  absl::Status parse();
  absl::Status begin_message();
  absl::Status decide_fate(Incoming& incoming);
  absl::Status decide_fate_of_service_message(Incoming& incoming);
  void take_service_message(Incoming& incoming);
  bool holding_is_dangerous() const;
  void end_hold_if_needed();
  void consume(size_t bytes);
  void complete_message();
  absl::Status give_up(const std::string& why) const;

  const Rank peer_;
  const uint32_t number_;
  UnixChannelState& channel_;
  FileDescriptor socket_;
  absl::Status lost_;

  UnixOutbox outbox_;
  bool writing_failed_ = false;
  bool hung_up_ = false;

  Inbox inbox_;
  std::optional<Incoming> incoming_;
  std::vector<std::byte> staging_;  // bytes read ahead of the parser
  size_t staging_begin_ = 0;
  size_t staging_end_ = 0;
};

}  // namespace evermoe
