// The letters that have come and that nobody has taken yet, in the order in which they have come.
//
// A peer may have Transport::kLetterBytesMax in here; the transport leaves the rest with the sender
// until take() has made room. Letters to oneself always find room: their sender shares our memory.
//
// Not synchronised: the transport's mutex guards it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "comm/transport/pending_operation.h"
#include "comm/transport/transport.h"

namespace evermoe {

class LetterBox {
 public:
  // Even empty letters take memory: no sender may have more of them in here.
  static constexpr size_t kLettersMax = size_t{1} << 16;

  explicit LetterBox(int ranks) : senders_(static_cast<size_t>(ranks)) {}

  // Whether a letter of this size may come in. One of any size may if none of this sender waits.
  bool has_room(Rank from, size_t size) const;
  size_t bytes_from(Rank from) const { return sender(from).bytes; }

  // Memory for a letter that is coming, which counts as waiting from now on. put() or abandon()
  // follows. `extra` bytes lie behind the letter's own.
  Letter expect(Rank from, Tag tag, size_t size, size_t extra = 0);
  void put(Letter letter);
  void abandon(const Letter& letter);

  std::optional<Letter> take();

  // The next put() finishes `waiter`, which must be unfinished until then; null takes it back.
  // One thread at a time waits for letters.
  void wake(PendingOperation* waiter);
  // Finishes the waiter, if there is one, with `reason`.
  void fail(const absl::Status& reason);

 private:
  struct Sender {
    size_t bytes = 0;
    size_t letters = 0;
  };
  Sender& sender(Rank rank) { return senders_[static_cast<size_t>(rank.value)]; }
  const Sender& sender(Rank rank) const { return senders_[static_cast<size_t>(rank.value)]; }

  std::vector<Sender> senders_;
  std::deque<Letter> letters_;
  PendingOperation* waiter_ = nullptr;
};

// What receive_letter() returns where none comes in time: nobody in particular is silent.
absl::Status no_letter_within(absl::Duration timeout);

}  // namespace evermoe
