// Messages among the members of a communicator, who are addressed by their index: what its
// collective calls are made of (communicator.h says what they promise).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "comm/idle_work.h"
#include "comm/pending.h"
#include "comm/transport/transport.h"

namespace evermoe {

struct CommunicatorOptions {
  View view;
  // Distinct for every communicator that shares ranks with another one in the same view.
  uint16_t group = 0;
  // How long any call waits for one message. Too short accuses slow peers, too long delays the
  // discovery of stopped ones (dead ones are reported at once, whatever this says).
  absl::Duration deadline = absl::Seconds(60);
};

// A message name has so many bits.
inline constexpr uint32_t kMessageNameMask = (uint32_t{1} << 30) - 1;

// The tags of one collective call.
class CallTags {
 public:
  explicit CallTags(Tag first) : first_(first) {}
  Tag tag(size_t message) const;

 private:
  Tag first_;
};

class GroupMessages {
 public:
  GroupMessages(Transport& transport, std::vector<Rank> members, CommunicatorOptions options);

  void restart(View view);
  View view() const { return options_.view; }
  void set_idle_work(IdleWork idle_work) { idle_work_ = std::move(idle_work); }

  int index() const { return index_; }
  int size() const { return static_cast<int>(members_.size()); }
  Rank rank_of(int index) const { return members_[static_cast<size_t>(index)]; }

  // For a collective call in which a member sends another one message at most.
  Tag next_collective_tag() { return next_collective_tags(1).tag(0); }
  // For one in which it sends several: each has its own. If they shared one, a large message that
  // is withdrawn while it waits for room would leave its place to a small one that was sent behind
  // it. All members have to ask for the same number.
  CallTags next_collective_tags(size_t messages);
  // Of messages that are named by their sender and receiver. REQUIRES: name <= kMessageNameMask.
  Tag named_tag(uint32_t name) const;

  PendingMessage send(int to, Tag tag, std::span<const std::byte> bytes);
  PendingMessage receive(int from, Tag tag, std::span<std::byte> into);

  // Every pair of members exchanges one message each way; entries at index() are ignored.
  std::vector<PendingMessage> start_exchange(Tag tag,
                                             std::span<const std::span<const std::byte>> sends,
                                             std::span<const std::span<std::byte>> receives);
  absl::Status exchange(Tag tag, std::span<const std::span<const std::byte>> sends,
                        std::span<const std::span<std::byte>> receives);

 private:
  PendingMessage pending(std::unique_ptr<TransportOperation> operation);

  Transport& transport_;
  const std::vector<Rank> members_;
  CommunicatorOptions options_;
  const int index_;
  IdleWork idle_work_;
  uint32_t message_count_ = 0;  // of collective calls, modulo kMessageNameMask + 1
};

// Part i of n parts: the range [begins[i], begins[i + 1]) of the values.
template <typename T>
std::span<T> part_of(std::span<T> values, std::span<const int64_t> begins, int i) {
  const auto at = static_cast<size_t>(i);
  return values.subspan(static_cast<size_t>(begins[at]),
                        static_cast<size_t>(begins[at + 1] - begins[at]));
}

// Begins of n parts of `count` elements that differ by at most one in size.
std::vector<int64_t> even_begins(size_t count, int n);

}  // namespace evermoe
