// The service messages that have come and that nobody has taken yet, in the order in which they
// have come.
//
// A peer may have Transport::kServiceBytesMax in here, all together kServiceBytesOfAllMax; the
// transport leaves the rest with the senders until take() has made room. Service messages to
// oneself always find room: their sender shares our memory.
//
// Nobody waits for ever: who is held has a message in here, and is looked at again when that is
// taken; and messages are taken in the order in which they came, whosever they are.
//
// Not synchronised: the transport's mutex guards it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "comm/channel/pending_operation.h"
#include "comm/transport/transport.h"

namespace evermoe {

class ServiceInbox {
 public:
  // Even empty service messages take memory: no sender may have more of them in here.
  static constexpr size_t kServiceMessagesMax = size_t{1} << 16;

  explicit ServiceInbox(int ranks) : senders_(static_cast<size_t>(ranks)) {}

  // Whether a service message of this size may come in. One of any size may if none of this sender
  // waits: so there may be one message of each sender beyond the limit of all.
  bool has_room(Rank from, size_t size) const;
  size_t bytes_from(Rank from) const { return sender(from).bytes; }
  size_t bytes() const { return bytes_; }

  // Memory for a service message that is coming, which counts as waiting from now on. put() or
  // abandon() follows.
  ServiceMessage expect(Rank from, Tag tag, size_t size);
  void put(ServiceMessage service_message);
  void abandon(const ServiceMessage& service_message);

  std::optional<ServiceMessage> take();

  // The next put() finishes `waiter`, which must be unfinished until then; null takes it back.
  // One thread at a time waits for service messages.
  void wake(PendingOperation* waiter);
  // Finishes the waiter, if there is one, with `reason`.
  void fail(const absl::Status& reason);

 private:
  struct Sender {
    size_t bytes = 0;
    size_t service_messages = 0;
  };
  Sender& sender(Rank rank) { return senders_[static_cast<size_t>(rank.value)]; }
  const Sender& sender(Rank rank) const { return senders_[static_cast<size_t>(rank.value)]; }

  std::vector<Sender> senders_;
  size_t bytes_ = 0;  // of all of them
  std::deque<ServiceMessage> service_messages_;
  PendingOperation* waiter_ = nullptr;
};

// What receive_service_message() returns where none comes in time: nobody in particular is silent.
absl::Status no_service_message_within(absl::Duration timeout);

}  // namespace evermoe
