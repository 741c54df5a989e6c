// Collectives out of point-to-point messages. With n members and S bytes of values:
//
//   call                      steps   bytes sent by each member
//   barrier                   1       0 (n - 1 empty messages)
//   all_to_all, all_gather    1       (n - 1) * own part
//   broadcast, small          1       root: (n - 1) * S
//   broadcast, large          2       root: S, everyone: (n - 1) / n * S
//   reduce_scatter            1       S - own part
//   all_reduce, small         1       (n - 1) * S; everyone reduces everything
//   all_reduce, large         2       2 * (n - 1) / n * S; everyone reduces a part and passes it on
//
// Everything is exchanged directly, because a ring or tree would either change the order of the
// additions or need more steps, and steps cost context switches where processes outnumber cores.
// Among more than kDirectMembersMax members the number of messages counts for more: barrier and
// what is small among the rest go over a binomial tree (tree.h). A reduction gathers the
// contributions there, n * S bytes at member 0, and adds them in order (reductions.h).
//
// Receives are started before sends, in the order in which the messages will come, so that payload
// goes straight to its place.
#include "comm/communicator.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "comm/reductions.h"
#include "comm/tree.h"

namespace evermoe {
namespace {

class GatherUnderWay final : public PendingCollective::Work {
 public:
  explicit GatherUnderWay(std::vector<PendingMessage> messages) : messages_(std::move(messages)) {}

  bool is_complete() const override { return messages_.empty(); }
  bool can_go_on() override { return are_done(messages_); }
  absl::Status go_on() override {
    RETURN_IF_ERROR(annotate(wait_all(messages_), "all_gather"));
    messages_.clear();
    return absl::OkStatus();
  }

 private:
  std::vector<PendingMessage> messages_;
};

absl::Status broadcast_whole(GroupMessages& group, int root, std::span<std::byte> bytes) {
  const Tag tag = group.next_collective_tag();
  if (group.size() > kDirectMembersMax) return broadcast_over_tree(group, tag, root, bytes);
  if (group.index() != root) return group.receive(root, tag, bytes).wait();
  std::vector<PendingMessage> messages;
  for (int to = 0; to < group.size(); ++to) {
    if (to != root) messages.push_back(group.send(to, tag, bytes));
  }
  return wait_all(messages);
}

absl::Status broadcast_parts(GroupMessages& group, int root, std::span<std::byte> bytes) {
  const bool is_root = group.index() == root;
  const Tag scatter = group.next_collective_tag();
  const std::vector<int64_t> begins = even_begins(bytes.size(), group.size());
  const auto part = [&](int i) { return part_of(bytes, begins, i); };
  std::vector<PendingMessage> messages;
  for (int to = 0; is_root && to < group.size(); ++to) {
    if (to != root) messages.push_back(group.send(to, scatter, part(to)));
  }
  if (!is_root) RETURN_IF_ERROR(group.receive(root, scatter, part(group.index())).wait());
  RETURN_IF_ERROR(wait_all(messages));
  // Then everyone passes its part on, except to the root, which has it.
  const auto members = static_cast<size_t>(group.size());
  std::vector<std::span<const std::byte>> passes(members, part(group.index()));
  if (!is_root) passes[static_cast<size_t>(root)] = {};
  std::vector<std::span<std::byte>> parts(members);
  for (int i = 0; !is_root && i < group.size(); ++i) parts[static_cast<size_t>(i)] = part(i);
  return group.exchange(group.next_collective_tag(), passes, parts);
}

}  // namespace

Communicator::Communicator(Transport& transport, std::vector<Rank> members,
                           CommunicatorOptions options)
    : group_(transport, std::move(members), options) {}

PendingMessage Communicator::start_send(int to, uint32_t name, std::span<const std::byte> bytes) {
  return group_.send(to, group_.named_tag(name), bytes);
}

PendingMessage Communicator::start_receive(int from, uint32_t name, std::span<std::byte> into) {
  return group_.receive(from, group_.named_tag(name), into);
}

absl::Status Communicator::barrier() {
  const auto members = static_cast<size_t>(size());
  if (size() > kDirectMembersMax) {
    const std::vector<int64_t> begins(members + 1);
    RETURN_IF_ERROR(
        annotate(gather_over_tree(group_, group_.next_collective_tag(), {}, begins), "barrier"));
    return annotate(broadcast_over_tree(group_, group_.next_collective_tag(), 0, {}), "barrier");
  }
  const std::vector<std::span<const std::byte>> nothing_to_send(members);
  const std::vector<std::span<std::byte>> nothing_to_receive(members);
  return annotate(
      group_.exchange(group_.next_collective_tag(), nothing_to_send, nothing_to_receive),
      "barrier");
}

absl::Status Communicator::all_to_all(std::span<const std::span<const std::byte>> sends,
                                      std::span<const std::span<std::byte>> receives) {
  const auto members = static_cast<size_t>(size());
  const auto own = static_cast<size_t>(index());
  CHECK(sends.size() == members && receives.size() == members);
  CHECK(sends[own].size() == receives[own].size());
  if (!sends[own].empty()) std::memmove(receives[own].data(), sends[own].data(), sends[own].size());
  return annotate(group_.exchange(group_.next_collective_tag(), sends, receives), "all_to_all");
}

absl::Status Communicator::all_gather(std::span<std::byte> bytes, std::span<const int64_t> begins) {
  CHECK(begins.size() == static_cast<size_t>(size()) + 1);
  const auto total = static_cast<size_t>(begins.back() - begins.front());
  if (size() <= kDirectMembersMax || total > kOneStepBytesMax) {
    return start_all_gather(bytes, begins).wait();
  }
  RETURN_IF_ERROR(annotate(gather_over_tree(group_, group_.next_collective_tag(), bytes, begins),
                           "all_gather"));
  const std::span<std::byte> gathered = bytes.subspan(static_cast<size_t>(begins.front()), total);
  return annotate(broadcast_over_tree(group_, group_.next_collective_tag(), 0, gathered),
                  "all_gather");
}

PendingCollective Communicator::start_all_gather(std::span<std::byte> bytes,
                                                 std::span<const int64_t> begins) {
  CHECK(begins.size() == static_cast<size_t>(size()) + 1);
  std::vector<std::span<std::byte>> receives;
  for (int i = 0; i < size(); ++i) receives.push_back(part_of(bytes, begins, i));
  const std::vector<std::span<const std::byte>> sends(receives.size(),
                                                      part_of(bytes, begins, index()));
  return PendingCollective(std::make_unique<GatherUnderWay>(
      group_.start_exchange(group_.next_collective_tag(), sends, receives)));
}

absl::Status Communicator::broadcast(int root, std::span<std::byte> bytes) {
  const bool one_step = bytes.size() <= kOneStepBytesMax || size() == 2;
  return annotate(
      one_step ? broadcast_whole(group_, root, bytes) : broadcast_parts(group_, root, bytes),
      "broadcast");
}

template <typename T>
absl::Status Communicator::all_reduce(std::span<T> values, ReduceOp op) {
  return annotate(evermoe::all_reduce(group_, values, op), "all_reduce");
}

template <typename T>
absl::Status Communicator::reduce_scatter(std::span<const T> values,
                                          std::span<const int64_t> begins, std::span<T> into,
                                          ReduceOp op) {
  return evermoe::reduce_scatter(group_, values, begins, into, op);
}

template <typename T>
PendingCollective Communicator::start_reduce_scatter(std::span<const T> values,
                                                     std::span<const int64_t> begins,
                                                     std::span<T> into, ReduceOp op) {
  return evermoe::start_reduce_scatter(group_, values, begins, into, op, kPendingWindowBytes);
}

#define EVERMOE_INSTANTIATE(T)                                                                     \
  template absl::Status Communicator::all_reduce(std::span<T>, ReduceOp);                          \
  template absl::Status Communicator::reduce_scatter(std::span<const T>, std::span<const int64_t>, \
                                                     std::span<T>, ReduceOp);                      \
  template PendingCollective Communicator::start_reduce_scatter(                                   \
      std::span<const T>, std::span<const int64_t>, std::span<T>, ReduceOp);
EVERMOE_INSTANTIATE(float)
EVERMOE_INSTANTIATE(double)
EVERMOE_INSTANTIATE(int64_t)
#undef EVERMOE_INSTANTIATE

}  // namespace evermoe
