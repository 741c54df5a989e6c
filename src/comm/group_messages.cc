#include "comm/group_messages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Purposes: bit 30 is set for collectives; the 30 bits below are a sequence number or a name.
constexpr uint32_t kCollective = uint32_t{1} << 30;

int index_of(const std::vector<Rank>& members, Rank rank) {
  const auto found = std::find(members.begin(), members.end(), rank);
  CHECK(found != members.end()) << "rank " << rank << " is no member of its own communicator";
  return static_cast<int>(found - members.begin());
}

}  // namespace

std::vector<int64_t> even_begins(size_t count, int n) {
  std::vector<int64_t> begins;
  for (int i = 0; i <= n; ++i) {
    begins.push_back(static_cast<int64_t>(count * static_cast<size_t>(i) / static_cast<size_t>(n)));
  }
  return begins;
}

GroupMessages::GroupMessages(Transport& transport, std::vector<Rank> members,
                             CommunicatorOptions options)
    : transport_(transport),
      members_(std::move(members)),
      options_(options),
      index_(index_of(members_, transport.rank())) {}

void GroupMessages::restart(View view) {
  options_.view = view;
  message_count_ = 0;
}

Tag CallTags::tag(size_t message) const {
  Tag tag = first_;
  tag.purpose = kCollective | ((tag.purpose + static_cast<uint32_t>(message)) & kMessageNameMask);
  return tag;
}

CallTags GroupMessages::next_collective_tags(size_t messages) {
  const CallTags tags({options_.view, options_.group, kCollective | message_count_});
  message_count_ = (message_count_ + static_cast<uint32_t>(messages)) & kMessageNameMask;
  return tags;
}

Tag GroupMessages::named_tag(uint32_t name) const {
  CHECK(name <= kMessageNameMask) << "a message name has 30 bits, not " << name;
  return {options_.view, options_.group, name};
}

PendingMessage GroupMessages::pending(std::unique_ptr<TransportOperation> operation) {
  PendingMessage message;
  message.transport_ = &transport_;
  message.operation_ = std::move(operation);
  message.deadline_ = options_.deadline;
  message.idle_work_ = &idle_work_;
  return message;
}

PendingMessage GroupMessages::send(int to, Tag tag, std::span<const std::byte> bytes) {
  return pending(transport_.start_send(rank_of(to), tag, bytes));
}

PendingMessage GroupMessages::receive(int from, Tag tag, std::span<std::byte> into) {
  return pending(transport_.start_receive(rank_of(from), tag, into));
}

// Peers are taken in turn from the next index on, so that not everybody begins with member 0.
std::vector<PendingMessage> GroupMessages::start_exchange(
    Tag tag, std::span<const std::span<const std::byte>> sends,
    std::span<const std::span<std::byte>> receives) {
  std::vector<PendingMessage> messages;
  messages.reserve(2 * members_.size());
  for (int i = 1; i < size(); ++i) {
    const int from = (index_ + size() - i) % size();
    messages.push_back(receive(from, tag, receives[static_cast<size_t>(from)]));
  }
  for (int i = 1; i < size(); ++i) {
    const int to = (index_ + i) % size();
    messages.push_back(send(to, tag, sends[static_cast<size_t>(to)]));
  }
  return messages;
}

absl::Status GroupMessages::exchange(Tag tag, std::span<const std::span<const std::byte>> sends,
                                     std::span<const std::span<std::byte>> receives) {
  std::vector<PendingMessage> messages = start_exchange(tag, sends, receives);
  return wait_all(messages);
}

}  // namespace evermoe
