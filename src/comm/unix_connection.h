// One AF_UNIX stream to one peer: frames out, frames in.
//
// Writing: a send is attempted at once; what the kernel does not take is queued in order.
//
// Reading: payload goes straight into the posted receive. A message that nobody has posted a receive
// for is kept on the heap if it is small (kEagerBytesMax) and the peer has less than
// kKeptBytesMax kept already. Otherwise it is *held*: its payload stays in the kernel and the sender
// waits, because that costs no memory and no copy. A hold ends when its receive is posted. It also
// ends, into the heap, when keeping it could deadlock: a receive is posted for a message behind it,
// a thread of this process waits for a send (its peer may in turn wait for us to read), or the peer
// has hung up and has to be read to its end. So a rank that waits never refuses to read what it
// waits for, and two ranks that both send before they receive get through. Only in these cases may
// more than kKeptBytesMax be kept, up to kForcedBytesMax, where the peer is given up with NoCapacity.
//
// Not synchronised: the transport's mutex guards it. It finishes operations, never deletes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/inbox.h"
#include "comm/pending_operation.h"
#include "comm/socket.h"

namespace evermoe {

class UnixConnection {
 public:
  static constexpr size_t kEagerBytesMax = size_t{64} << 10;
  static constexpr size_t kKeptBytesMax = size_t{64} << 20;
  static constexpr size_t kForcedBytesMax = size_t{4} << 30;

  // `send_waiters` counts the threads of this transport that wait for a send; it must outlive this.
  UnixConnection(Rank peer, FileDescriptor socket, const int& send_waiters);
  ~UnixConnection();

  void start_send(PendingOperation* send);
  void start_receive(PendingOperation* receive);

  // Takes an unfinished operation back; what was already on the way goes on from a copy (send) or is
  // thrown away (receive).
  void withdraw(PendingOperation* operation);

  // Fails the operations and drops the messages of views up to `last`, now and later.
  void revoke(View last, const absl::Status& reason);

  // What epoll reported. After a failure the socket is closed and every operation has failed.
  void on_readable();
  void on_writable();
  void on_hang_up();

  // Ends a hold that has become dangerous (see above).
  void reconsider_hold();

  // Queues the goodbye frame. Nothing may be sent after it.
  void say_goodbye();

  // Closes the socket and fails everything pending and later with `reason`.
  void fail(const absl::Status& reason);

  bool wants_read() const { return !is_lost() && !is_held(); }
  bool wants_write() const { return !is_lost() && !writing_failed_ && !outgoing_.empty(); }
  bool is_lost() const { return !lost_.ok(); }
  int fd() const { return socket_.get(); }
  Rank peer() const { return peer_; }

  uint32_t armed_events = 0;  // what the transport's epoll watches this socket for

 private:
  // The message whose header has been read and whose payload has not.
  struct Incoming {
    enum class Fate { kReceive, kKeep, kDiscard, kHold };
    Fate fate = Fate::kDiscard;
    FrameHeader header;
    size_t arrived = 0;
    PendingOperation* receive = nullptr;
    std::unique_ptr<KeptMessage> kept;

    size_t missing() const { return header.length - arrived; }
    std::byte* destination() const;
  };

  bool is_held() const { return incoming_ && incoming_->fate == Incoming::Fate::kHold; }
  size_t staged() const { return staging_end_ - staging_begin_; }

  void end_dangerous_hold();
  // Goes on with what was held: parses what is staged behind it.
  void resume();
  void flush();
  void advance_outgoing(size_t written);
  // One recvmsg. True if it filled everything offered, so that more is likely there.
  bool read_once();
  absl::Status parse();
  absl::Status begin_message();
  absl::Status decide_fate(Incoming& incoming);
  void consume(size_t bytes);
  void complete_message();
  void detach_front_send(PendingOperation* send);

  const Rank peer_;
  const int& send_waiters_;
  FileDescriptor socket_;
  absl::Status lost_;
  std::optional<View> revoked_;
  absl::Status revoke_reason_;

  Fifo<PendingOperation> outgoing_;
  // The rest of a withdrawn send whose frame was already begun; at the front of outgoing_.
  std::unique_ptr<PendingOperation> orphan_;
  std::unique_ptr<std::byte[]> orphan_bytes_;
  std::unique_ptr<PendingOperation> goodbye_;
  bool writing_failed_ = false;
  bool hung_up_ = false;

  Inbox inbox_;
  std::optional<Incoming> incoming_;
  std::vector<std::byte> staging_;  // bytes read ahead of the parser
  size_t staging_begin_ = 0;
  size_t staging_end_ = 0;
};

}  // namespace evermoe
