// A member's outgoing letters: started at once, kept until the transport has let go of their bytes.
//
// Whoever needs an answer asks again, after a while or in the next view; what a letter meets on its way
// is told to `on_failure`.
// Threads: any; the sending itself happens on the calling thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "comm/transport.h"
#include "recovery/letters.h"

namespace evermoe {

class Post {
 public:
  using OnFailure = std::function<void(View, const absl::Status&)>;
  Post(Transport& transport, OnFailure on_failure) : transport_(transport), on_failure_(std::move(on_failure)) {}
  ~Post();

  void send(Rank to, View view, LetterKind kind, LetterBytes bytes);
  // The same for bytes that `owner` keeps alive.
  void send(Rank to, View view, LetterKind kind, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  // Wakes this process's own service thread.
  void wake_service() { send(transport_.rank(), View(0), LetterKind::kWake, {}); }

  // Gives back what has been sent. Returns how many letters are still on their way.
  size_t reap();

 private:
  struct Sending {
    View view;
    std::unique_ptr<TransportOperation> operation;
    std::shared_ptr<const void> owner;
  };
  void finish(Sending sending);

  Transport& transport_;
  const OnFailure on_failure_;
  std::mutex mutex_;
  std::list<Sending> sending_;
};

}  // namespace evermoe
