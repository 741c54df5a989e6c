// The frames that wait to be written to one stream, in the order of their sends.
//
// A frame that was begun must be finished, or the peer could make no sense of what follows: where
// its send is taken back meanwhile, the rest is written from a copy.
//
// Not synchronised: the channel's mutex guards it. It finishes operations, never deletes them.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/channel/pending_operation.h"

namespace evermoe {

class UnixOutbox {
 public:
  explicit UnixOutbox(Rank peer) : peer_(peer) {}

  bool empty() const { return queue_.empty(); }
  void push(PendingOperation* send);

  // Takes an unfinished send back.
  void withdraw(PendingOperation* send);
  void revoke(GroupRange groups, View last, const absl::Status& reason);

  // Queues the goodbye. Nothing may be sent after it.
  void say_goodbye();

  // Writes what the socket takes now. False if the peer does not read any more.
  bool flush(int fd);

  // Finishes everything with `reason`.
  void fail(const absl::Status& reason);

 private:
  void detach_front(PendingOperation* send);
  void advance(size_t written);

  const Rank peer_;
  Fifo<PendingOperation> queue_;
  // The rest of a withdrawn send; at the front of the queue.
  std::unique_ptr<PendingOperation> orphan_;
  std::unique_ptr<std::byte[]> orphan_bytes_;
  std::unique_ptr<PendingOperation> goodbye_;
};

}  // namespace evermoe
