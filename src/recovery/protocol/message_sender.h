// A member's outgoing messages: started at once, kept until the transport has let go of their
// bytes.
//
// Whoever needs an answer asks again, after a while or in the next view; what a message meets on
// its way is told to `on_failure`. Threads: any; the sending itself happens on the calling thread.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>

#include "base/mutex.h"
#include "comm/transport/transport.h"
#include "recovery/protocol/member_messages.h"

namespace evermoe {

class MessageSender {
 public:
  using OnFailure = std::function<void(View, const absl::Status&)>;
  MessageSender(Transport& transport, OnFailure on_failure)
      : transport_(transport), on_failure_(std::move(on_failure)) {}
  ~MessageSender();

  void send(Rank to, View view, MessageKind kind, MessageBytes bytes);
  // The same for bytes that `owner` keeps alive. Nothing happens while these very bytes are on
  // their way to that rank in that view.
  void send(Rank to, View view, MessageKind kind, std::span<const std::byte> bytes,
            std::shared_ptr<const void> owner);
  // Wakes this process's own service thread.
  void wake_service() { send(transport_.rank(), View(0), MessageKind::kWake, {}); }

  // How many chunks the receivers' side has taken so far.
  int64_t chunks_taken() const { return chunks_taken_; }

  // Gives back what has been sent. Returns how many messages are still on their way.
  size_t reap();

 private:
  struct Sending {
    Rank to;
    View view;
    MessageKind kind;
    const std::byte* bytes;
    std::unique_ptr<TransportOperation> operation;
    std::shared_ptr<const void> owner;
  };
  bool is_on_its_way(Rank to, View view, const std::byte* bytes) const;
  void finish(Sending sending);

  Transport& transport_;
  const OnFailure on_failure_;
  std::atomic<int64_t> chunks_taken_ = 0;
  mutable Mutex mutex_;
  std::list<Sending> sending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
