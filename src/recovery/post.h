// A member's outgoing letters: started at once, kept until the transport has let go of their bytes.
//
// Lost peers are no errors here: whoever needs the answer asks again in the next view.
// Threads: any; the sending itself happens on the calling thread.
#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "comm/transport.h"
#include "recovery/letters.h"

namespace evermoe {

class Post {
 public:
  explicit Post(Transport& transport) : transport_(transport) {}
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
    std::unique_ptr<TransportOperation> operation;
    std::shared_ptr<const void> owner;
  };
  Transport& transport_;
  std::mutex mutex_;
  std::list<Sending> sending_;
};

}  // namespace evermoe
