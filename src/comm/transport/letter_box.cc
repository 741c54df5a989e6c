#include "comm/transport/letter_box.h"

#include <utility>

namespace evermoe {

bool LetterBox::has_room(Rank from, size_t size) const {
  const Sender& waiting = sender(from);
  return waiting.letters == 0 ||
         (waiting.bytes + size <= Transport::kLetterBytesMax && waiting.letters < kLettersMax);
}

Letter LetterBox::expect(Rank from, Tag tag, size_t size, size_t extra) {
  sender(from).bytes += size;
  ++sender(from).letters;
  return {from, tag, size, std::unique_ptr<std::byte[]>(new std::byte[size + extra])};
}

void LetterBox::put(Letter letter) {
  letters_.push_back(std::move(letter));
  if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->finish(absl::OkStatus());
}

void LetterBox::abandon(const Letter& letter) {
  sender(letter.from).bytes -= letter.size;
  --sender(letter.from).letters;
}

std::optional<Letter> LetterBox::take() {
  if (letters_.empty()) return std::nullopt;
  Letter letter = std::move(letters_.front());
  letters_.pop_front();
  abandon(letter);
  return letter;
}

void LetterBox::wake(PendingOperation* waiter) {
  CHECK(waiter == nullptr || waiter_ == nullptr) << "two threads receive letters";
  waiter_ = waiter;
}

void LetterBox::fail(const absl::Status& reason) {
  if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->finish(reason);
}

absl::Status no_letter_within(absl::Duration timeout) {
  return Timeout(absl::StrCat("no letter within ", absl::FormatDuration(timeout)));
}

}  // namespace evermoe
