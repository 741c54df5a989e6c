// Matches the messages of one sender with the receives posted for them, in order within each tag.
//
// Invariant: for one tag there are posted receives or kept messages, never both.
// Not synchronised: the transport's mutex guards it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "comm/channel/pending_operation.h"

namespace evermoe {

struct TagHash {
  size_t operator()(const Tag& tag) const {
    return absl::Hash<std::pair<uint64_t, uint64_t>>()(
        {uint64_t{tag.view.value} << 16 | tag.group, tag.purpose});
  }
};

// A message for which nobody had posted a receive when it came.
struct KeptMessage {
  KeptMessage(Tag t, size_t length) : tag(t), size(length), bytes(new std::byte[length]) {}
  std::span<std::byte> span() { return {bytes.get(), size}; }

  Tag tag;
  size_t size;
  std::unique_ptr<std::byte[]> bytes;  // not zeroed: large messages are filled at once
};

class Inbox {
 public:
  // Finishes `receive` at once if a message for it is kept, else queues it.
  void post(PendingOperation* receive);

  // Takes the oldest receive posted for `tag`; null if there is none.
  PendingOperation* match(const Tag& tag);

  // Keeps a complete message that match() found no receive for.
  void keep(std::unique_ptr<KeptMessage> message);

  // Forgets a posted receive. True if it was posted here.
  bool withdraw(PendingOperation* receive);

  // Finishes posted receives of views up to `last` (all of them without a value) with `reason`.
  void fail_posted(std::optional<View> last, const absl::Status& reason);

  // Drops the kept messages of views up to `last`.
  void drop_kept(View last);

  // The same for some groups only.
  void fail_posted(GroupRange groups, View last, const absl::Status& reason);
  void drop_kept(GroupRange groups, View last);

  size_t posted_count() const { return posted_count_; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  absl::flat_hash_map<Tag, Fifo<PendingOperation>, TagHash> posted_;
  absl::flat_hash_map<Tag, std::deque<std::unique_ptr<KeptMessage>>, TagHash> kept_;
  size_t posted_count_ = 0;
  size_t kept_bytes_ = 0;
};

// Copies a message into the buffer of its receive. CHECKs that the lengths agree.
void deliver(std::span<const std::byte> message, PendingOperation& receive);
void check_length(const PendingOperation& receive, size_t length);

}  // namespace evermoe
